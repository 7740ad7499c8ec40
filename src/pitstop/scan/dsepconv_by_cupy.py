"""Files that compute deformable separable convolutions by CuPy: LDMVFI's, EDSC's and their copies.

Such a file is known by what computes: its kernels, how sizes are written into them, what is
launched and what is returned. How CuPy compiles them differs between copies: nobody looks at that.
"""

import ast
import hashlib
import warnings

MARK = "kernel_DSepconv_updateOutput"
KERNEL = "__global__"
COMPUTING = {"cupy_kernel", "_FunctionDSepconv", "FunctionDSepconv", "ModuleDSepconv"}
OFFERED = frozenset({"FunctionDSepconv", "ModuleDSepconv"})  # what others import from such a file
SPACE = str.maketrans("", "", " \t\r\n")
KNOWN = {
    "5722daba8ad45198d4bde2f435c10fc328f2917366890451da9d3ee65d854709"
}  # compared with ours on a GPU, borders and gradients included


def is_dsepconv(text: str) -> bool:
    """Whether a file computes what ``pitstop.parts.dsepconv`` does."""
    if MARK not in text:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its regular expressions have invalid escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return digest(tree) in KNOWN


def digest(tree: ast.Module) -> str:
    """Of all that decides about its numbers."""
    said = []
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Constant(str(kernel))) if KERNEL in kernel:
                said.append(f"{name}={kernel.translate(SPACE)}")
            case ast.FunctionDef(name) | ast.ClassDef(name) if name in COMPUTING:
                said.append(_told(node))
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def _told(node: object) -> str:
    """A part of the tree, in words that are the same in all versions of Python."""
    if isinstance(node, list):
        return "[" + ",".join(map(_told, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [
        f"{name}={_told(value)}"
        for name, value in ast.iter_fields(node)
        if value not in (None, []) and name != "ctx"
    ]
    return f"{type(node).__name__}({','.join(fields)})"
