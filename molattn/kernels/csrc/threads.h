/* Running jobs in threads. */

#ifndef MOLATTN_THREADS_H
#define MOLATTN_THREADS_H

#include <pthread.h>

/* Calls the function for each of the `count` jobs, an array of structs of `size` bytes: the first in this thread, each
 * of the others in a new thread, or in this one if that cannot be started. */
static void run_jobs(void *(*function)(void *), void *jobs, size_t size, int count) {
  pthread_t ids[count];
  int started = 1;
  for (; started < count; started++)
    if (pthread_create(&ids[started], NULL, function, (char *)jobs + started * size)) break;
  function(jobs);
  for (int i = started; i < count; i++) function((char *)jobs + i * size);
  for (int i = 1; i < started; i++) pthread_join(ids[i], NULL);
}

#endif
