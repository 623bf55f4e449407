"""The kernels: loops over memory in which the values of a row lie side by side.

x is read as sets of values that share a mean and an rstd. A set is a row of a matrix, with a
gamma for each value (layer norm); or some contiguous pieces, with one gamma a piece (batch and
group norm of images); or a column of a matrix (batch norm of features).

Every sum is a float64, in blocks; what is stored has the type of x. A mean is stored in two
parts, `hi` rounded to that type and `lo`, what the rounding left: (x - hi) - lo loses no digit
far from zero. `reassoc` lets the compiler sum in vectors. Only sums get it, and never with
`nsz`: the two together would let it rewrite (x - hi) - lo as well.

`start` and `stop` say which sets, rows or blocks of rows a thread takes. No sum depends on them,
so results do not depend on the number of threads.
"""

from numba import njit

entry = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
inside = njit(fastmath={"contract"}, error_model="numpy")
summing = njit(fastmath={"contract", "reassoc"}, error_model="numpy")

BLOCK = 4096  # values in one partial sum of a piece


@inside
def gradient(d, c, rstd, mean_d, along):
    """dx = rstd · (d - mean(d) - c · along),   along = rstd · (rstd · mean(d · c)),
    in this order: the square of rstd may lie outside of float32."""
    return rstd * ((d - mean_d) - c * along)


@summing
def powers(x, shift):
    """Σ (x - shift) and Σ (x - shift)²."""
    s = q = 0.0
    for i in range(x.size):
        c = x[i] - shift
        s += c
        q += c * c
    return s, q


@summing
def products(dy, x, hi, lo):
    """Σ dy and Σ dy · c, with c = x - mean."""
    s = p = 0.0
    for i in range(x.size):
        s += dy[i]
        p += dy[i] * ((x[i] - hi) - lo)
    return s, p


@summing
def weighted_products(dy, gamma, x, hi, lo):
    """Σ d and Σ d · c, with d = gamma · dy."""
    s = p = 0.0
    for i in range(x.size):
        d = gamma[i] * dy[i]
        s += d
        p += d * ((x[i] - hi) - lo)
    return s, p


@inside
def set_powers(x, first, step, pieces, size, shift):
    """The powers of a set: `pieces` of this size, the next one `step` further on."""
    s = q = 0.0
    for p in range(pieces):
        begin, end = first + p * step, first + p * step + size
        for at in range(begin, end, BLOCK):
            a, b = powers(x[at : min(at + BLOCK, end)], shift)
            s += a
            q += b
    return s, q


@inside
def statistics(x, first, step, pieces, size, center, eps):
    """hi, lo and rstd of a set.

    Sums of float32 numbers in float64 have digits to spare, and one reading is enough. For
    float64 the mean of the first reading becomes the shift of a second.
    """
    n = pieces * size
    shift = d = 0.0
    if center:
        shift += x[first]
    s, q = set_powers(x, first, step, pieces, size, shift)
    if center and x.itemsize > 4:
        shift += s / n
        s, q = set_powers(x, first, step, pieces, size, shift)
    if center:
        d += s / n
    hi = x.dtype.type(shift + d)
    lo = x.dtype.type((shift - hi) + d)
    return hi, lo, x.dtype.type(1 / (q / n - d * d + eps) ** 0.5)


@entry
def rows_forward(x, gamma, beta, layout, eps, y, mean, rstd, start, stop):
    """Rows of n values. gamma and beta hold n for each group; the groups take turns."""
    n, center = layout
    at = start * n % gamma.size
    for r in range(start, stop):
        hi, lo, k = statistics(x, r * n, n, 1, n, center, eps)
        mean[0, r], mean[1, r], rstd[r] = hi, lo, k
        row, out = x[r * n : r * n + n], y[r * n : r * n + n]
        g, b = gamma[at : at + n], beta[at : at + n]
        for i in range(n):
            out[i] = ((row[i] - hi) - lo) * k * g[i] + b[i]
        at = at + n if at + n < gamma.size else 0


@entry
def rows_backward(dy, x, gamma, layout, mean, rstd, dx, sums, start, stop):
    """sums (blocks, 2, gamma.size) are those for dbeta and dgamma."""
    n, center = layout
    size = -(-rstd.size // len(sums))
    for block in range(start, stop):
        sums[block] = 0
        for r in range(block * size, min(block * size + size, rstd.size)):
            hi, lo, k = mean[0, r], mean[1, r], rstd[r]
            at = r * n % gamma.size
            row, up, out = x[r * n : r * n + n], dy[r * n : r * n + n], dx[r * n : r * n + n]
            g = gamma[at : at + n]
            s = p = m = 0.0
            for i in range(0, n, BLOCK):
                j = min(i + BLOCK, n)
                a, b = weighted_products(up[i:j], g[i:j], row[i:j], hi, lo)
                s += a
                p += b
            if center:
                m += s / n
            mean_d, along = x.dtype.type(m), x.dtype.type(k * (k * p) / n)
            for i in range(n):
                out[i] = gradient(g[i] * up[i], (row[i] - hi) - lo, k, mean_d, along)
            dbeta, dgamma = sums[block, 0, at : at + n], sums[block, 1, at : at + n]
            for i in range(n):
                dbeta[i] += up[i]
                dgamma[i] += up[i] * (((row[i] - hi) - lo) * k)


@entry
def pieces_forward(x, gamma, beta, layout, eps, y, mean, rstd, start, stop):
    """A set i begins at i · stride; its piece p has the channel i · per_set + p · per_piece."""
    pieces, size, stride, step, per_set, per_piece = layout
    for i in range(start, stop):
        hi, lo, k = statistics(x, i * stride, step, pieces, size, True, eps)
        mean[0, i], mean[1, i], rstd[i] = hi, lo, k
        for p in range(pieces):
            channel = (i * per_set + p * per_piece) % gamma.size
            g, b, at = k * gamma[channel], beta[channel], i * stride + p * step
            piece, out = x[at : at + size], y[at : at + size]
            for j in range(size):
                out[j] = ((piece[j] - hi) - lo) * g + b


@entry
def pieces_backward(dy, x, gamma, layout, mean, rstd, dx, sums, start, stop):
    """sums (2, sets, pieces) are those for dbeta and dgamma."""
    pieces, size, stride, step, per_set, per_piece = layout
    n = pieces * size
    for i in range(start, stop):
        hi, lo, k = mean[0, i], mean[1, i], rstd[i]
        s = q = 0.0
        for p in range(pieces):
            at = i * stride + p * step
            a = b = 0.0
            for j in range(at, at + size, BLOCK):
                end = min(j + BLOCK, at + size)
                one, other = products(dy[j:end], x[j:end], hi, lo)
                a += one
                b += other
            sums[0, i, p], sums[1, i, p] = a, b * k
            g = gamma[(i * per_set + p * per_piece) % gamma.size]
            s += g * a
            q += g * b
        mean_d, along = x.dtype.type(s / n), x.dtype.type(k * (k * q) / n)
        for p in range(pieces):
            g, at = gamma[(i * per_set + p * per_piece) % gamma.size], i * stride + p * step
            piece, up, out = x[at : at + size], dy[at : at + size], dx[at : at + size]
            for j in range(size):
                out[j] = gradient(g * up[j], (piece[j] - hi) - lo, k, mean_d, along)


@entry
def column_powers(x, shift, sums, start, stop):
    """sums (blocks of rows, 2, columns): Σ (x - shift) and Σ (x - shift)² of each block."""
    size = -(-len(x) // len(sums))
    for block in range(start, stop):
        sums[block] = 0
        s, q = sums[block, 0], sums[block, 1]  # `s, q = sums[block]` would not run in vectors
        for r in range(block * size, min(block * size + size, len(x))):
            row = x[r]
            for i in range(row.size):
                c = row[i] - shift[i]
                s[i] += c
                q[i] += c * c


@entry
def columns_forward(x, hi, lo, scale, beta, y, start, stop):
    """y = c · scale + beta."""
    for r in range(start, stop):
        row, out = x[r], y[r]
        for i in range(row.size):
            out[i] = ((row[i] - hi[i]) - lo[i]) * scale[i] + beta[i]


@entry
def column_products(dy, x, hi, lo, sums, start, stop):
    """sums (blocks of rows, 2, columns): Σ dy and Σ dy · c of each block."""
    size = -(-len(x) // len(sums))
    for block in range(start, stop):
        sums[block] = 0
        s, p = sums[block, 0], sums[block, 1]
        for r in range(block * size, min(block * size + size, len(x))):
            row, up = x[r], dy[r]
            for i in range(row.size):
                s[i] += up[i]
                p[i] += up[i] * ((row[i] - hi[i]) - lo[i])


@entry
def columns_backward(dy, x, hi, lo, scale, mean_dy, along, dx, start, stop):
    """dx; gamma stands in the scale."""
    for r in range(start, stop):
        row, up, out = x[r], dy[r], dx[r]
        for i in range(row.size):
            out[i] = gradient(up[i], (row[i] - hi[i]) - lo[i], scale[i], mean_dy[i], along[i])
