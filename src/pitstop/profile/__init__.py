"""Run an unedited script, find its steps, record what happened, and harm nothing.

``launch`` starts the script in a process of its own, exactly as ``python SCRIPT`` would. In that
process ``site/sitecustomize`` calls ``attach``, which waits for torch to be imported and then
puts a few ``hooks`` around it. They report to the ``recorder``, which cuts the run into slices
and writes them down as it goes. For a few steps the ``inspector`` looks at every operation.
``collect`` reads a recording back as Evidence. All that runs beside the user's code imports the
standard library only.
"""
