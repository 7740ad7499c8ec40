"""Static rules: one file each, named after the function in it, found by walking this folder."""
