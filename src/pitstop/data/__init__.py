"""Will a dataset feed the model? Told by looking at files, never by running code.

``walk`` counts every folder and forgets the names; ``names`` keeps what they tell. ``layout`` says
what each folder is: a split, a clip, a role. ``partners`` and ``listings`` find what is missing,
``twins`` what is in two splits. ``sample`` chooses the files that ``look`` opens (``pictures``,
``tensors`` with ``torch_file``, ``videos``), and ``gather`` counts what they showed; ``stores``
reads what is no file per sample. ``read`` ties these together into one frozen ``dataset.Dataset``.
``rules`` judge it, ``needs`` computes workers and memory, and ``examine`` makes the report.
"""
