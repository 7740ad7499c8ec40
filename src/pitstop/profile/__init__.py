"""Run an unedited script, find its steps, record what happened, and harm nothing.

``start`` runs the script in a process of its own, exactly as ``python SCRIPT`` would. In that
process ``site/sitecustomize`` waits for torch to be imported and then puts a few ``hooks`` around
it. They report to the recorder, which cuts the run into slices and writes them down as it goes. A
few steps are inspected: every operation is looked at. ``read`` gives a recording back as Evidence.
All that runs beside the user's code imports torch and the standard library only.

start/      launch: the script as if typed; options, attach: the recorder, once torch is there;
            guardian, ranks, restarts, stacks: what ends with a run, belongs to it, or hangs
site/       what Python imports before the script
steps/      live, pattern, ahead: what ends a step, while the script runs; group: found again in a
            recording; scope: which steps are inspected
hooks/      hooks: all of them; patch: how one is put around torch and taken away
record/     recorder: slices of time; meters, cores, host: what is measured in each; optimizers,
            loaders, settings: what the run is made of; writer
inspect/    inspector, watch: every operation of a step; calls, flow, gradients: what depends on
            what; kernels, timeline, gaps: when a GPU was idle, and why
source/     lines: which line of the user's is behind an operation; holders, builders: its names
forensics/  nonfinite: where the first NaN came from
read/       collect: the files as Evidence; runs: those below ``.pitstop/runs``
"""
