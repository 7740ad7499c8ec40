"""Triton kernels of attention in windows; ``attention.py`` has the essay.

A program owns one tile of the bias and walks over windows, so that the tile is read once for many
of them. Scores are kept in base 2: ``exp2`` is one instruction. The backward kernel makes a tile of
scores once and takes all five gradients from it; where a window has several tiles, each writes its
share of the gradients of queries, keys and values, and the shares are added up after it.

Numbers of tokens and their strides are compile-time constants: addresses within a tile are then
computed once and shared, which leaves the registers to the scores.
"""

# Kernels take flat lists of pointers and numbers, compile-time constants in capitals, no types.
# Conditions on constants stand apart from those on numbers.
# ruff: noqa: C901, N803, N806, PLR0913, PLR0915, PLR0917, SIM102
# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _product(left, right, TF32: tl.constexpr):
    """A matrix product; without TF32, float32 is split in three, which keeps its precision."""
    return tl.dot(left, right, input_precision="tf32" if TF32 else "tf32x3")


@triton.jit
def _near(values, TF32: tl.constexpr):
    """The nearest TF32: a matrix unit cuts off what it does not take, which errs to one side."""
    near = values
    if TF32:
        if values.dtype == tl.float32:
            bits = values.to(tl.int32, bitcast=True)
            near = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return near


@triton.jit
def _tokens(
    start,
    index,
    wide,
    STRIDE: tl.constexpr,
    TOKENS: tl.constexpr,
    WIDTH: tl.constexpr,
    FULL: tl.constexpr,
):
    """Some tokens of one head; zeros where there are none."""
    place = start + (index[:, None] * STRIDE + wide[None, :])
    if FULL:
        return tl.load(place)
    return tl.load(place, mask=(index < TOKENS)[:, None] & (wide < WIDTH)[None, :], other=0.0)


@triton.jit
def _keep(
    start,
    values,
    index,
    wide,
    STRIDE: tl.constexpr,
    TOKENS: tl.constexpr,
    WIDTH: tl.constexpr,
    FULL: tl.constexpr,
):
    """Store some tokens of one head."""
    place = start + (index[:, None] * STRIDE + wide[None, :])
    if FULL:
        tl.store(place, values)
    else:
        tl.store(place, values, (index < TOKENS)[:, None] & (wide < WIDTH)[None, :])


@triton.jit
def _added(
    start,
    row,
    column,
    STRIDE: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    FULL: tl.constexpr,
):
    """A tile of what is added to the scores, in base 2."""
    place = start + (row[:, None] * STRIDE + column[None, :])
    if FULL:
        return tl.load(place) * LOG2E
    return tl.load(place, (row < QUERIES)[:, None] & (column < KEYS)[None, :], other=0.0) * LOG2E


@triton.jit
def forward_kernel(
    query,
    key,
    value,
    bias,
    mask,
    masked,
    output,
    sums,
    windows,
    each,
    positions,
    query_window,
    query_head,
    key_window,
    key_head,
    value_window,
    value_head,
    mask_window,
    scale,
    QUERY_TOKEN: tl.constexpr,
    KEY_TOKEN: tl.constexpr,
    VALUE_TOKEN: tl.constexpr,
    MASK_ROW: tl.constexpr,
    HEADS: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TF32: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Attention of ``ROWS`` queries of one head in ``each`` windows, and the log of their sums."""
    ONE_TILE: tl.constexpr = KEYS <= COLUMNS
    FULL_ROWS: tl.constexpr = QUERIES % ROWS == 0
    FULL_COLUMNS: tl.constexpr = KEYS % COLUMNS == 0
    FULL: tl.constexpr = FULL_ROWS and FULL_COLUMNS
    IN_FULL: tl.constexpr = WIDTH == WIDE
    BESIDE: tl.constexpr = HEADS * WIDTH
    head = tl.program_id(0) % HEADS
    row = tl.program_id(0) // HEADS * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1) * each
    count = tl.minimum(first + each, windows) - first
    wide = tl.arange(0, WIDE)
    if bias is not None:
        bias += head * (QUERIES * KEYS)
        if ONE_TILE:
            own = _added(bias, row, tl.arange(0, COLUMNS), KEYS, QUERIES, KEYS, FULL)
    for step in tl.range(0, count, num_stages=STAGES if ONE_TILE else 1):
        number = first + step
        window = number.to(tl.int64)
        queries = query + (window * query_window + head * query_head)
        keys = key + (window * key_window + head * key_head)
        values = value + (window * value_window + head * value_head)
        q = _tokens(queries, row, wide, QUERY_TOKEN, QUERIES, WIDTH, FULL_ROWS and IN_FULL)
        q = _near(q, TF32)
        top = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        answer = tl.zeros([ROWS, WIDE], tl.float32)
        if mask is not None:
            position = number % positions
            some = tl.load(masked + position).to(tl.int32)
            own_mask = mask + position.to(tl.int64) * mask_window
        for begin in tl.range(0, 1 if ONE_TILE else KEYS, COLUMNS, num_stages=STAGES):
            column = begin + tl.arange(0, COLUMNS)
            k = _tokens(keys, column, wide, KEY_TOKEN, KEYS, WIDTH, FULL_COLUMNS and IN_FULL)
            v = _tokens(values, column, wide, VALUE_TOKEN, KEYS, WIDTH, FULL_COLUMNS and IN_FULL)
            k, v = _near(k, TF32), _near(v, TF32)
            scores = _product(q, tl.trans(k), TF32) * (scale * LOG2E)
            if bias is not None:
                if ONE_TILE:
                    scores += own
                else:
                    scores += _added(bias, row, column, KEYS, QUERIES, KEYS, FULL)
            if mask is not None:
                if some != 0:
                    scores += _added(own_mask, row, column, MASK_ROW, QUERIES, KEYS, FULL)
            if not FULL_COLUMNS:
                scores = tl.where((column < KEYS)[None, :], scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1))
            level = tl.where(higher == float("-inf"), 0.0, higher)
            weights = tl.exp2(scores - level[:, None])
            fading = tl.exp2(top - level)
            total = total * fading + tl.sum(weights, 1)
            weights = _near(weights.to(v.dtype), TF32)
            answer = answer * fading[:, None] + _product(weights, v, TF32)
            top = higher
        level = tl.where(top == float("-inf"), 0.0, top)
        tl.store(
            sums + (window * HEADS + head) * QUERIES + row, level + tl.log2(total), row < QUERIES
        )
        start = output + (window * (QUERIES * BESIDE) + head * WIDTH)
        answer = answer / total[:, None]
        _keep(start, answer, row, wide, BESIDE, QUERIES, WIDTH, FULL_ROWS and IN_FULL)


@triton.jit
def backward_kernel(
    grad,
    query,
    key,
    value,
    bias,
    mask,
    masked,
    output,
    sums,
    grad_query,
    grad_key,
    grad_value,
    grad_bias,
    windows,
    each,
    positions,
    grad_window,
    grad_head,
    query_window,
    query_head,
    key_window,
    key_head,
    value_window,
    value_head,
    mask_window,
    scale,
    GRAD_TOKEN: tl.constexpr,
    QUERY_TOKEN: tl.constexpr,
    KEY_TOKEN: tl.constexpr,
    VALUE_TOKEN: tl.constexpr,
    MASK_ROW: tl.constexpr,
    HEADS: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    WIDTH: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TF32: tl.constexpr,
    STAGES: tl.constexpr,
):
    """All gradients from one tile of scores in ``each`` windows: the bias's, shares of the rest.

    The tile lies keys x queries, as the products for the gradients of keys and values want it.
    """
    ACROSS: tl.constexpr = (KEYS + COLUMNS - 1) // COLUMNS
    FULL_COLUMNS: tl.constexpr = KEYS % COLUMNS == 0
    ROW_FULL: tl.constexpr = QUERIES % ROWS == 0 and WIDTH == WIDE
    COLUMN_FULL: tl.constexpr = FULL_COLUMNS and WIDTH == WIDE
    FULL: tl.constexpr = QUERIES % ROWS == 0 and FULL_COLUMNS
    BESIDE: tl.constexpr = HEADS * WIDTH
    head = tl.program_id(0) % HEADS
    down, right = tl.program_id(0) // HEADS // ACROSS, tl.program_id(0) // HEADS % ACROSS
    row = down * ROWS + tl.arange(0, ROWS)
    column = right * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1) * each
    count = tl.minimum(first + each, windows) - first
    wide = tl.arange(0, WIDE)
    grad_query += right.to(tl.int64) * windows * (QUERIES * BESIDE)
    grad_key += down.to(tl.int64) * windows * (KEYS * BESIDE)
    grad_value += down.to(tl.int64) * windows * (KEYS * BESIDE)
    if bias is not None:
        own = tl.trans(
            _added(bias + head * (QUERIES * KEYS), row, column, KEYS, QUERIES, KEYS, FULL)
        )
    if grad_bias is not None:
        total = tl.zeros([COLUMNS, ROWS], tl.float32)
    for step in tl.range(0, count, num_stages=STAGES):
        number = first + step
        window = number.to(tl.int64)
        start = query + (window * query_window + head * query_head)
        q = _tokens(start, row, wide, QUERY_TOKEN, QUERIES, WIDTH, ROW_FULL)
        start = key + (window * key_window + head * key_head)
        k = _tokens(start, column, wide, KEY_TOKEN, KEYS, WIDTH, COLUMN_FULL)
        q, k = _near(q, TF32), _near(k, TF32)
        scores = _product(k, tl.trans(q), TF32) * (scale * LOG2E)
        if bias is not None:
            scores += own
        if mask is not None:
            position = number % positions
            if tl.load(masked + position).to(tl.int32) != 0:
                own_mask = mask + position.to(tl.int64) * mask_window
                scores += tl.trans(_added(own_mask, row, column, MASK_ROW, QUERIES, KEYS, FULL))
        own_sums = sums + (window * HEADS + head) * QUERIES
        weights = tl.exp2(scores - tl.load(own_sums + row, row < QUERIES, other=0.0)[None, :])
        if not FULL_COLUMNS:  # there a weight may be infinite, and no zero would make it none
            weights = tl.where((column < KEYS)[:, None], weights, 0.0)
        own_output = window * (QUERIES * BESIDE) + head * WIDTH
        own_keys = window * (KEYS * BESIDE) + head * WIDTH
        start = grad + (window * grad_window + head * grad_head)
        g = _tokens(start, row, wide, GRAD_TOKEN, QUERIES, WIDTH, ROW_FULL)
        near = _near(g, TF32)
        to_value = _product(_near(weights.to(q.dtype), TF32), near, TF32)
        _keep(grad_value + own_keys, to_value, column, wide, BESIDE, KEYS, WIDTH, COLUMN_FULL)
        start = value + (window * value_window + head * value_head)
        v = _tokens(start, column, wide, VALUE_TOKEN, KEYS, WIDTH, COLUMN_FULL)
        o = _tokens(output + own_output, row, wide, BESIDE, QUERIES, WIDTH, ROW_FULL)
        mean = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
        slopes = weights * (_product(_near(v, TF32), tl.trans(near), TF32) - mean[None, :])
        if grad_bias is not None:
            total += slopes
        slopes = _near(slopes.to(q.dtype), TF32)
        to_key = _product(slopes, q, TF32) * scale
        _keep(grad_key + own_keys, to_key, column, wide, BESIDE, KEYS, WIDTH, COLUMN_FULL)
        to_query = _product(tl.trans(slopes), k, TF32) * scale
        _keep(grad_query + own_output, to_query, row, wide, BESIDE, QUERIES, WIDTH, ROW_FULL)
    if grad_bias is not None:
        grad_bias += (tl.program_id(1) * HEADS + head) * (QUERIES * KEYS)
        place = grad_bias + (row[:, None] * KEYS + column[None, :])
        tl.store(place, tl.trans(total), (row < QUERIES)[:, None] & (column < KEYS)[None, :])
