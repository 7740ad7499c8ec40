"""Changes of a stranger's package: most of them are wrong, and make a script faster or not."""

from pitstop.tune.change import change

WRONG = []
RIGHT = []


def wrong(effect="rounding", **options):
    """Decorate a change that must be refused."""

    def wrap(apply):
        made = change(effect, toggles=True, **options)(apply)
        WRONG.append(made.name)
        return made

    return wrap


def right(effect="exact", **options):
    """Decorate a change that must be kept."""

    def wrap(apply):
        made = change(effect, toggles=True, **options)(apply)
        RIGHT.append(made.name)
        return made

    return wrap


def _groups(script, key, factor):
    def scale(by):
        for optimizer in script.optimizers:
            for group in optimizer.param_groups:
                group[key] *= by

    def off():
        for optimizer, values in kept.items():
            for group, value in zip(optimizer.param_groups, values, strict=True):
                group[key] = value

    def on():
        kept.clear()
        kept.update({each: [g[key] for g in each.param_groups] for each in script.optimizers})
        scale(factor)

    kept = {}
    script.switch(on, off)
    script.applied()


@wrong()
def rate_three_percent_off(script):
    """Another learning rate."""
    _groups(script, "lr", 1.03)


@wrong(precision="bfloat16")
def rate_three_percent_off_in_half(script):
    """Another learning rate, which says that it rounds to bfloat16."""
    _groups(script, "lr", 1.03)


@wrong()
def no_decay(script):
    """No weight decay."""
    _groups(script, "weight_decay", 0.0)


@wrong()
def no_clipping(script):
    """Gradients are not clipped."""
    nn = script.torch.nn

    def skip(_original, parameters, *_given, **_named):
        return nn.utils.get_total_norm([each.grad for each in parameters])

    script.patch(nn.utils, "clip_grad_norm_", skip)
    script.applied()


def _around_training(script, before, after):
    def around(call, module, *given, **named):
        before(module)
        try:
            return call(*given, **named)
        finally:
            after(module)

    script.around_model(around)
    script.applied()


def _norms(script, module):
    kind = script.torch.nn.modules.batchnorm._BatchNorm
    return [each for each in module.modules() if isinstance(each, kind)]


@wrong("other-randomness")
def norms_in_evaluation(script):
    """BatchNorm by its running averages."""
    _around_training(
        script,
        lambda module: [each.eval() for each in _norms(script, module)],
        lambda module: [each.train() for each in _norms(script, module)],
    )


@wrong("other-randomness")
def no_dropout(script):
    """Dropout drops nothing."""
    script.patch(script.torch.nn.functional, "dropout", lambda _original, value, *_, **__: value)
    script.applied()


@wrong()
def one_bias_learns_nothing(script):
    """The gradient of the last bias is zeroed."""

    def backward(original, *given, **named):
        original(*given, **named)
        for optimizer in script.optimizers:
            optimizer.param_groups[0]["params"][-1].grad.zero_()

    script.patch(script.torch.autograd, "backward", backward)
    script.applied()


@wrong()
def a_micro_batch_fewer(script):
    """Every other backward pass is left out."""
    calls = []

    def backward(original, *given, **named):
        calls.append(None)
        if len(calls) % 2:
            original(*given, **named)

    script.patch(script.torch.autograd, "backward", backward)
    script.applied()


@wrong("other-randomness")
def stale_batch(script):
    """The model is given what it was given before."""
    last = []

    def around(call, _module, inputs, *given, **named):
        stale = last.pop() if last else inputs * 0
        last.append(inputs)
        return call(stale, *given, **named)

    script.around_model(around)
    script.applied()


@wrong()
def averages_in_half(script):
    """The optimizer keeps its averages in half precision."""

    def built(optimizer):
        def after(optimizer, *_):
            if script.on:
                for state in optimizer.state.values():
                    state["exp_avg"] = state["exp_avg"].half()

        def before(optimizer, *_):
            for state in optimizer.state.values():
                state["exp_avg"] = state["exp_avg"].float()

        optimizer.register_step_pre_hook(before)
        optimizer.register_step_post_hook(after)

    script.on_optimizer_built(built)
    script.applied()


@wrong()
def kills_the_process(script):
    """Ends the script at once."""
    import os

    script.around_model(lambda _call, *_given, **_named: os._exit(9))
    script.applied()


@wrong()
def output_off(script):
    """What the model returns is 0.1 % off."""

    def around(call, _module, *given, **named):
        return call(*given, **named) * 1.001

    script.around_model(around)
    script.applied()


@right()
def nothing_at_all(script):
    """Nothing."""
    script.applied()


@right()
def gradients_set_to_zero(script):
    """A step with gradients of zero instead of none, where all of them are filled anyway."""
    script.around_model(lambda call, _module, *given, **named: call(*given, **named))
    script.applied()


@right("rounding")
def sums_in_another_order(script):
    """Linear layers in double precision: the result is rounded once, elsewhere."""
    functional = script.torch.nn.functional

    def linear(original, inputs, weight, bias=None):
        wide = None if bias is None else bias.double()
        return original(inputs.double(), weight.double(), wide).to(inputs.dtype)

    script.patch(functional, "linear", linear)
    script.applied()


@right("other-randomness")
def other_masks(script):
    """Dropout draws one number more, so that all masks are others."""
    torch = script.torch

    def drop(original, *given, **named):
        torch.rand(())
        return original(*given, **named)

    script.patch(torch.nn.functional, "dropout", drop)
    script.applied()
