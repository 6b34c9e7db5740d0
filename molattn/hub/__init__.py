"""Models on the Hugging Face Hub: addresses, and downloads into the local cache."""
