"""Run an unedited script, find its steps, record what happened, and harm nothing.

``launch`` starts the script in a process of its own, exactly as ``python SCRIPT`` would. In that
process ``site/sitecustomize`` calls ``attach``, which waits for torch to be imported and then
puts a few ``hooks`` around it. They report to the ``recorder``, which cuts the run into slices
and writes them down as it goes. For a few steps the ``inspector`` looks at every operation.
``collect`` reads a recording back as Evidence. All that runs beside the user's code imports torch
and the standard library only.

Who calls whom::

    launch      host (memory, GPUs), stacks (asks a run that hangs)
      site, attach, options                   in the script's process, before torch is there
        hooks, loader_hooks, modules          what is put around torch, by patch
          recorder                            what the hooks see, as slices of time
            clock, cores, exchange            where the time goes, and waits for cores, ranks
            steps, pattern                    how many are done, and what ends one
            loaders, optimizers, numbered     who was built where (made)
            meters, writer, compiling
            scope                             which steps are looked at, and how
              inspector, watch, flow          every operation of a step: calls, dependence,
                                              gradients, origins, kept, holders, builders, tree
              modes                           whether the script looks at operations itself
              kernels, timeline, profiler     torch's profiler; gaps tells why a GPU was idle
              sampler, workers                which line runs, for time that nothing explains
              nonfinite, culprit, graph       where the first NaN came from; hazards, variables
    collect     group, inspection             the files as Evidence, without torch
    runs, shown                               for the commands
    attempt, lines, tensors, sources, waits   used all over
"""
