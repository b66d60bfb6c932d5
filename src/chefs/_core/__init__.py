"""The numerical kernels: compiled functions on plain arrays. Nothing here knows a class of the layers above."""
