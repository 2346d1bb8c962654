"""Files that are copied beside exported weights: each rebuilds a network from one framework's stock parts, alone.

They import the framework, safetensors and the standard library. Back ends use the same files, so that what is tested
here is what runs elsewhere.
"""
