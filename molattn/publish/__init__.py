"""Publish a trained model on the Hugging Face Hub: upload its files, and write its model card from the run folder."""
