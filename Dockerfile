# molattn on the CPU.
#
#     docker build --build-arg PIP_EXTRA_INDEX_URL=... -t molattn .
#     docker run --rm -v "$PWD":/work --user "$(id -u):$(id -g)" -e HOME=/tmp molattn train in.csv
#
# On Linux plain `torch` is the build for CUDA, some gigabytes. Name an index with CPU builds in PIP_EXTRA_INDEX_URL: pip
# prefers its 2.13.0+cpu to 2.13.0, and the pin in constraints.txt allows both.

FROM python:3.11-slim-bookworm AS build
ARG PIP_EXTRA_INDEX_URL
# gcc builds the C files into the package, for the processors that the image may run on: the image needs no compiler.
ENV MOLATTN_WHEEL=compiled
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev libexpat1 libxext6 libxrender1 \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/molattn
WORKDIR /source
COPY . .
RUN /opt/molattn/bin/pip install --no-cache-dir --no-compile -c constraints.txt .
# What no command reads: tests, torch's headers and the programs that test it, pip.
WORKDIR /opt/molattn/lib/python3.11/site-packages
RUN find . -type d -name tests -prune -exec rm -rf {} + \
    && rm -rf torch/test torch/include pip pip-*.dist-info \
    && find torch/bin -type f ! -name torch_shm_manager -delete
# Commands compile the Python files that they import, which would otherwise be compiled at each start of a container. All
# files, most of which are never imported, would take far more room.
WORKDIR /tmp
RUN export MOLATTN_CACHE=/tmp/cache MOLATTN_COMPILE=0 \
    && /opt/molattn/bin/molattn train --dataset esol --epochs 1 --quiet --output-dir run \
    && /opt/molattn/bin/molattn predict run --smiles CCO \
    && /opt/molattn/bin/molattn explain run --smiles CCO \
    && /opt/molattn/bin/molattn view run --smiles CCO --output ethanol.html

FROM python:3.11-slim-bookworm
# Libraries of X that RDKit draws with.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libexpat1 libxext6 libxrender1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 molattn \
    && install --directory --owner molattn /work
COPY --from=build /opt/molattn /opt/molattn
ENV PATH=/opt/molattn/bin:$PATH
USER 1000
WORKDIR /work
ENTRYPOINT ["molattn"]
CMD ["--help"]
