"""A trained model is published on the hub: its files, and the model card that is written from its run folder."""
