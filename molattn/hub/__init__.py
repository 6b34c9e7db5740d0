"""Models on the Hugging Face Hub: their addresses, and how they are downloaded."""
