"""A trained model as one file for other programs: an ONNX graph, or a program of `torch.export`.

`program` is what is exported, `decode` its last part, and `write` the export. `metadata` and `onnx_model` read the
file, and need no torch.
"""
