// Many small convolutional networks, trained at once. One launch does one step of the work for all of them: a block looks up
// which job it belongs to, a job is one chunk of one layer of one network, and a warp makes some pixels of one image.
//
// Channels come in chunks of eight. The maps of a chunk lie as [image][pixel][8 channels] in bfloat16, so a pixel is
// 16 bytes; an image has a border of zeros, (side + 2)² pixels and 16 more, and is never written outside of its interior.
// Hence a 3 × 3 convolution needs no tests for neighbours. Each pair of chunks has a tile of weights, [tap][channel
// out][channel in]. Tensor cores multiply bfloat16 and add up in float32; nothing is added atomically, so that the same
// numbers come out every time, whatever the other networks are.
//
// Within a warp, lane = 4 g + t. For D = A B + C with A 16 × 16, B 16 × 8 and C 16 × 8, a lane holds of A the rows g and
// g + 8 at columns 2t, 2t + 1 and 8 more; of B the rows 2t, 2t + 1 and 8 more at column g; of C the rows g and g + 8 at
// columns 2t, 2t + 1.

#ifdef __CUDACC__
__device__ inline void mma16(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline void mma8(float* c, unsigned a0, unsigned a1, unsigned b0) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

__device__ inline unsigned pack(float low, float high) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// Copies 16 bytes into shared memory, or zeros where there is nothing, without waiting; `arrived` waits until only so many
// of the portions that were closed by `close` are still under way.
__device__ inline void copy(void* to, const void* from, bool is_there) {
    const unsigned at = __cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}
__device__ inline void close() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ inline void arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
    __syncwarp();
}

__device__ inline float of_bits(unsigned bits) { return __uint_as_float(bits); }
__device__ inline unsigned lows(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
__device__ inline unsigned highs(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7632); }
__device__ inline float from_lane(float value, int lane) { return __shfl_sync(0xffffffff, value, lane); }
__device__ inline float from_partner(float value, int mask) { return __shfl_xor_sync(0xffffffff, value, mask); }
#endif

struct Stack {  // stacked_device.POINTERS and NUMBERS give the same names in the same order
    const int *blocks, *jobs, *entries;  // which job a block belongs to; the jobs; what the jobs go through
    const int* windows;                  // for every pair of sides, the windows of each row
    const int *images, *labels;          // numbers of the images in this minibatch, [network][batch]; labels of all images
    const unsigned* x;                   // all images, at every side
    unsigned *h, *d;                     // maps, and the slopes of the loss in them
    unsigned *ahead, *back;              // tiles of weights in bfloat16, and the same with taps and channels turned round
    float *weights, *partials;           // in float32; their slopes, [group of images][weights]
    float *first, *second;               // moments of Adam
    float *means, *mean_slopes;          // of the chunks that the outputs take in, [chunk][batch][8]
    float *logits, *errors;              // [network][batch][class]
    const float* rates;                  // of every step, corrected for the moments' start: [step][2]
    const int* step;
    long long batch, n_groups, n_classes, n_weights, n_tiled;
};

struct Entry { int plane, tile, windows, is_input; };  // where pooling and means go through entries, `tile` is a side
struct Divisor { int factor, shift; };                 // stacked_tables.divisor
struct Convolution {
    int begin, side, out, entry, n_entries, network, is_whole, mean, adds, tall;
    Divisor strips, across;
    int n_strips, n_across;
};
struct Pooling { int begin, side, from, small, to, windows; Divisor area, row; int unused[6]; };
struct Unpooling { int begin, side, to, entry, n_entries; Divisor area, row; int unused[7]; };
struct Edge { int begin, side, from, is_input, out, tile, network, unused[9]; };
struct Head { int begin, network, entry, n_entries, mean, weights, unused[10]; };
struct alignas(16) Window { int first; float share, share_of_next; int unused; };  // of pooling that a row falls into
struct alignas(16) Span { int begin, end; float share; int unused; };             // rows that are pooled into one
struct alignas(16) Pixel { unsigned pairs[4]; };

constexpr int TILE = 576;     // weights: 9 taps × 8 channels × 8 channels
constexpr int THREADS = 128;  // of a block
constexpr float BETA1 = 0.9f, BETA2 = 0.999f, EPSILON = 1e-8f;

__device__ inline size_t plane_of(int side) { return (side + 2) * (side + 2) + 16; }
__device__ inline float low(unsigned both) { return of_bits(both << 16); }
__device__ inline float high(unsigned both) { return of_bits(both & 0xffff0000u); }
__device__ inline bool is_positive(unsigned bits) { return bits && bits < 0x8000u; }
__device__ inline int divide(int n, Divisor by) { return (unsigned long long)n * by.factor >> by.shift; }
__device__ inline int first_of(const Stack& s, int group) {  // image
    const int share = (s.batch + s.n_groups - 1) / s.n_groups;
    return group * share < s.batch ? group * share : s.batch;
}
template <class Job> __device__ inline const Job& job_of(const Stack& s, int block) {
    return ((const Job*)s.jobs)[s.blocks[block]];
}

__device__ inline void add(float* sum, Pixel pixel, float share) {
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[2 * k] += share * low(pixel.pairs[k]), sum[2 * k + 1] += share * high(pixel.pairs[k]);
}

__device__ inline void store(Pixel* to, const float* sum, float share) {
    Pixel pixel;
#pragma unroll
    for (int k = 0; k < 4; ++k) pixel.pairs[k] = pack(share * sum[2 * k], share * sum[2 * k + 1]);
    *to = pixel;
}

// Where a warp is: 2 R rows of eight pixels, of which a lane holds in C those of column left + g.
struct Place { int b, top, left; };

template <int R> __device__ inline Place place_of(const Convolution& job, int warp) {
    const int b = divide(warp, job.strips), strip = warp - b * job.n_strips, band = divide(strip, job.across);
    return {b, 1 + 2 * R * band, 1 + 8 * (strip - band * job.n_across)};
}

struct alignas(16) Strip { Pixel pixels[160], weights[TILE / 8]; };  // rows of ten pixels, and a tile

// acc += sum over the entries of the convolution of a chunk with its tile. While one entry is worked on, the next is copied.
// Every row is read at three shifts, and serves three rows of the result.
template <int R>
__device__ inline void convolve(float (&acc)[R][4], const Stack& s, const Convolution& job, const unsigned* maps,
                                const unsigned* tiles, Place at, Strip* mine) {
    const int lane = threadIdx.x & 31, width = job.side + 2, n_pixels = 10 * (2 * R + 2);
    const size_t corner = width * (at.top - 1) + at.left - 1, number = s.images[job.network * s.batch + at.b];
    const auto fetch = [&](int e) {
        const Entry entry = ((const Entry*)s.entries)[job.entry + e];
        const Pixel* in = (const Pixel*)(entry.is_input ? s.x : maps);
        in += entry.plane + (entry.is_input ? number : at.b) * plane_of(job.side) + corner;
#pragma unroll
        for (int i = lane; i < n_pixels; i += 32)
            copy(&mine[e % 2].pixels[i], in + i / 10 * width + i % 10, at.top - 1 + i / 10 < width);
#pragma unroll
        for (int i = lane; i < TILE / 8; i += 32)
            copy(&mine[e % 2].weights[i], (const Pixel*)tiles + (size_t)entry.tile * (TILE / 8) + i, true);
        close();
    };
    if (job.n_entries) fetch(0);
#pragma unroll 1
    for (int e = 0; e < job.n_entries; ++e) {
        if (e + 1 < job.n_entries) fetch(e + 1), arrived<1>();
        else arrived<0>();
        // Volatile: read in this order. Left to itself, the compiler reads all at once, into more registers than there are.
        const volatile unsigned* in = (const unsigned*)mine[e % 2].pixels + lane;
        const unsigned* weights = (const unsigned*)mine[e % 2].weights + lane;
        unsigned w[9], a[4][3];
#pragma unroll
        for (int tap = 0; tap < 9; ++tap) w[tap] = weights[32 * tap];
#pragma unroll
        for (int r = -1; r < R; ++r) {
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int x = 0; x < 3; ++x) a[i][x] = a[i + 2][x], a[i + 2][x] = in[4 * (10 * (2 * r + 2 + i) + x)];
            if (r < 0) continue;
#pragma unroll
            for (int y = 0; y < 3; ++y) {
                mma16(acc[r], a[y][0], a[y + 1][0], a[y][1], a[y + 1][1], w[3 * y], w[3 * y + 1]);
                mma8(acc[r], a[y][2], a[y + 1][2], w[3 * y + 2]);
            }
        }
        __syncwarp();  // before it is overwritten
    }
}

// Calls use(number of the tile, 0 or 1 for the row, where it lies in its image) for what this lane holds of the interior.
template <int R, class Use> __device__ inline void interior(const Convolution& job, Place at, Use use) {
    const int lane = threadIdx.x & 31, x = at.left + (lane >> 2);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int y = at.top + 2 * r + row;
            if (x <= job.side && y <= job.side) use(r, row, 4 * (y * (job.side + 2) + x) + (lane & 3));
        }
}

// h = max(0, sum over parents of their convolutions)
template <int R> __device__ inline void ahead(const Stack& s, const Convolution& job, int warp, Strip* mine) {
    const Place place = place_of<R>(job, warp);
    if (place.b >= s.batch) return;
    float acc[R][4] = {};
    convolve<R>(acc, s, job, s.h, s.ahead, place, mine);
    unsigned* h = s.h + 4 * (job.out + place.b * plane_of(job.side));
    interior<R>(job, place, [&](int r, int row, int at) {
        const float u = acc[r][2 * row], v = acc[r][2 * row + 1];
        h[at] = pack(u < 0 ? 0 : u, v < 0 ? 0 : v);
    });
}

// Slopes in a map: sum over the children that take it in at this side. Where the map is whole, not pooled, also through the
// output, and through the pooled maps what `unpool` left there; and none where the rectifier was off.
template <int R> __device__ inline void back(const Stack& s, const Convolution& job, int warp, Strip* mine) {
    const Place place = place_of<R>(job, warp);
    if (place.b >= s.batch) return;
    float acc[R][4] = {}, mean[2] = {};
    convolve<R>(acc, s, job, s.d, s.back, place, mine);
    unsigned maps[R][2], pooled[R][2], *d = s.d + 4 * (job.out + place.b * plane_of(job.side));
    const unsigned* h = s.h + 4 * (job.out + place.b * plane_of(job.side));
    for (int k = 0; k < 2 && job.mean >= 0; ++k)
        mean[k] = s.mean_slopes[(job.mean * s.batch + place.b) * 8 + 2 * (threadIdx.x & 3) + k];
    interior<R>(job, place, [&](int r, int row, int at) {  // all reads before the first write, so that none waits for it
        maps[r][row] = job.is_whole ? h[at] : 0x3f803f80;  // (1, 1)
        pooled[r][row] = job.adds ? d[at] : 0;
    });
    interior<R>(job, place, [&](int r, int row, int at) {
        const float u = acc[r][2 * row] + mean[0] + low(pooled[r][row]);
        const float v = acc[r][2 * row + 1] + mean[1] + high(pooled[r][row]);
        d[at] = pack(is_positive(maps[r][row] & 0xffff) ? u : 0, is_positive(maps[r][row] >> 16) ? v : 0);
    });
}

// The choices of rows are those of stacked_tables.TALL.
extern "C" __global__ void __launch_bounds__(THREADS) convolve_ahead(const Stack s, int from) {
    __shared__ Strip strips[THREADS / 32][2];
    const Convolution& job = job_of<Convolution>(s, from + blockIdx.x);
    const int warp = (from + blockIdx.x - job.begin) * (THREADS / 32) + threadIdx.x / 32;
    if (job.tall == 4) ahead<4>(s, job, warp, strips[threadIdx.x / 32]);
    else if (job.tall == 5) ahead<5>(s, job, warp, strips[threadIdx.x / 32]);
    else ahead<7>(s, job, warp, strips[threadIdx.x / 32]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 6) convolve_back(const Stack s, int from) {
    __shared__ Strip strips[THREADS / 32][2];
    const Convolution& job = job_of<Convolution>(s, from + blockIdx.x);
    const int warp = (from + blockIdx.x - job.begin) * (THREADS / 32) + threadIdx.x / 32;
    if (job.tall == 4) back<4>(s, job, warp, strips[threadIdx.x / 32]);
    else if (job.tall == 5) back<5>(s, job, warp, strips[threadIdx.x / 32]);
    else back<7>(s, job, warp, strips[threadIdx.x / 32]);
}

// Adaptive average pooling of one chunk: a thread makes one pixel.
extern "C" __global__ void __launch_bounds__(THREADS) pool(const Stack s, int from) {
    const Pooling& job = job_of<Pooling>(s, from + blockIdx.x);
    const int at = (from + blockIdx.x - job.begin) * THREADS + threadIdx.x, b = divide(at, job.area);
    if (b >= s.batch) return;
    const int pixel = at - b * job.small * job.small, i = divide(pixel, job.row), j = pixel - i * job.small;
    const Span rows = ((const Span*)s.windows)[job.windows + i], columns = ((const Span*)s.windows)[job.windows + j];
    const Pixel* in = (const Pixel*)s.h + job.from + b * plane_of(job.side);
    float sum[8] = {};
    for (int y = rows.begin; y < rows.end; ++y)
#pragma unroll 4
        for (int x = columns.begin; x < columns.end; ++x) add(sum, in[(y + 1) * (job.side + 2) + x + 1], 1);
    store((Pixel*)s.h + job.to + b * plane_of(job.small) + (i + 1) * (job.small + 2) + j + 1, sum, rows.share * columns.share);
}

// What one chunk of a map gets from the slopes of maps that were pooled from it: a thread makes one pixel. A row falls into
// at most two windows, and where there is no second, its share is 0.
extern "C" __global__ void __launch_bounds__(THREADS) unpool(const Stack s, int from) {
    const Unpooling& job = job_of<Unpooling>(s, from + blockIdx.x);
    const int at = (from + blockIdx.x - job.begin) * THREADS + threadIdx.x, b = divide(at, job.area);
    if (b >= s.batch) return;
    const int pixel = at - b * job.side * job.side, y = divide(pixel, job.row), x = pixel - y * job.side;
    float sum[8] = {};
#pragma unroll 2
    for (int e = job.entry; e < job.entry + job.n_entries; ++e) {
        const Entry pooled = ((const Entry*)s.entries)[e];
        const Window rows = ((const Window*)s.windows)[pooled.windows + y];
        const Window columns = ((const Window*)s.windows)[pooled.windows + x];
        const int small = pooled.tile, width = small + 2;
        const Pixel* in = (const Pixel*)s.d + pooled.plane + b * plane_of(small) + (rows.first + 1) * width + columns.first + 1;
        add(sum, in[0], rows.share * columns.share);
        add(sum, in[1], rows.share * columns.share_of_next);
        add(sum, in[width], rows.share_of_next * columns.share);
        add(sum, in[width + 1], rows.share_of_next * columns.share_of_next);
    }
    store((Pixel*)s.d + job.to + b * plane_of(job.side) + (y + 1) * (job.side + 2) + x + 1, sum, 1);
}

constexpr int BAND = 14;  // rows
struct alignas(16) Bands { Pixel in[10 * (BAND + 2)], out[8 * BAND]; };

// Slopes in the tile between a chunk and a chunk of a child: a warp does the images of one group. Sums over pixels, two rows of
// eight at a time: these are the columns of A and the rows of B. The rows of A are eight channels at two shifts, first the
// left and the middle one, then the right one twice. As above, what is read serves three rows, and is copied in advance.
extern "C" __global__ void __launch_bounds__(THREADS) weight_slopes(const Stack s, int from) {
    __shared__ Bands bands[THREADS / 32][2];
    Bands* mine = bands[threadIdx.x / 32];
    const Edge& job = job_of<Edge>(s, from + blockIdx.x);
    const int group = (from + blockIdx.x - job.begin) * (THREADS / 32) + threadIdx.x / 32;
    if (group >= s.n_groups) return;
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, side = job.side, width = side + 2;
    int b = first_of(s, group), left = 1, top = 1, n = 0;  // what is to be copied next
    const int last = first_of(s, group + 1);
    const auto fetch = [&](Bands& to) {
        const size_t image = job.is_input ? s.images[job.network * s.batch + b] : b;
        const Pixel* in = (const Pixel*)(job.is_input ? s.x : s.h) + job.from + image * plane_of(side);
        const Pixel* out = (const Pixel*)s.d + job.out + b * plane_of(side);
#pragma unroll
        for (int i = lane; i < 10 * (BAND + 2); i += 32)
            copy(&to.in[i], in + (top - 1 + i / 10) * width + left - 1 + i % 10, top - 1 + i / 10 < width);
#pragma unroll
        for (int i = lane; i < 8 * BAND; i += 32)
            copy(&to.out[i], out + (top + i / 8) * width + left + i % 8, top + i / 8 <= side && left + i % 8 <= side);
        close();
        n = side + 1 - top;  // rows
        if ((left += 8) > side && (left = 1, top += BAND) > side) top = 1, ++b;
    };
    float acc[3][2][4] = {};
    if (b < last) fetch(mine[0]);
#pragma unroll 1
    for (int k = 0; n; ++k) {
        const int n_rows = n;
        n = 0;
        if (b < last) fetch(mine[(k + 1) % 2]), arrived<1>();
        else arrived<0>();
        const unsigned* in = (const unsigned*)mine[k % 2].in + 4 * t + (g & 3);
        const unsigned* out = (const unsigned*)mine[k % 2].out + 4 * t + (g >> 1);
        unsigned a[4][2][2];
#pragma unroll
        for (int top = -2; top < BAND; top += 2) {
            if (top >= n_rows) break;
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    const unsigned* at = in + 4 * (10 * (top + 2 + i) + (x ? 2 : g >> 2));
                    a[i][x][0] = a[i + 2][x][0], a[i][x][1] = a[i + 2][x][1];
                    a[i + 2][x][0] = lows(at[0], at[16]), a[i + 2][x][1] = highs(at[0], at[16]);
                }
            if (top < 0) continue;
            unsigned d[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const unsigned p = out[32 * (top + i)], q = out[32 * (top + i) + 16];
                d[i] = g & 1 ? highs(p, q) : lows(p, q);
            }
#pragma unroll
            for (int y = 0; y < 3; ++y)
#pragma unroll
                for (int x = 0; x < 2; ++x)
                    mma16(acc[y][x], a[y][x][0], a[y][x][1], a[y + 1][x][0], a[y + 1][x][1], d[0], d[1]);
        }
        __syncwarp();
    }
    float* tile = s.partials + group * s.n_weights + (size_t)job.tile * TILE + 16 * t + 2 * (g & 3);
#pragma unroll
    for (int y = 0; y < 3; ++y)
#pragma unroll
        for (int x = 0; x < 2; ++x) {
            float *to = tile + 64 * (3 * y + (x ? 2 : g >> 2)), *sums = acc[y][x];
            if (!x || g < 4) to[0] = sums[0], to[1] = sums[2], to[8] = sums[1], to[9] = sums[3];
        }
}

// A warp makes the logits of one image, from the means of maps, and the slopes of its loss in logits and in maps.
extern "C" __global__ void __launch_bounds__(THREADS) head(const Stack s, int from) {
    const Head& job = job_of<Head>(s, from + blockIdx.x);
    const int lane = threadIdx.x & 31, n_classes = s.n_classes, n_in = 8 * job.n_entries;
    const int b = (from + blockIdx.x - job.begin) * (THREADS / 32) + threadIdx.x / 32;
    if (b >= s.batch) return;
    const size_t number = s.images[job.network * s.batch + b], row = job.network * s.batch + b;
    const float* w = s.weights + job.weights;
    float logit = lane < n_classes ? w[n_classes * n_in + lane] : -1e30f;
    for (int e = 0; e < job.n_entries; ++e) {
        const Entry entry = ((const Entry*)s.entries)[job.entry + e];
        const int side = entry.tile, end = (side + 2) * (side + 1);
        const Pixel* in = (const Pixel*)(entry.is_input ? s.x : s.h);
        in += entry.plane + (entry.is_input ? number : b) * plane_of(side);
        float mean[8] = {};
#pragma unroll 4
        for (int pixel = side + 2 + lane; pixel < end; pixel += 32) add(mean, in[pixel], 1);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            for (int mask = 16; mask; mask /= 2) mean[k] += from_partner(mean[k], mask);
            mean[k] /= side * side;
            if (lane < n_classes) logit += w[lane * n_in + 8 * e + k] * mean[k];
            if (lane == 0) s.means[((job.mean + e) * s.batch + b) * 8 + k] = mean[k];
        }
    }
    float largest = logit, total;
    for (int mask = 16; mask; mask /= 2) {
        const float other = from_partner(largest, mask);
        largest = other > largest ? other : largest;
    }
    total = lane < n_classes ? expf(logit - largest) : 0;
    const float mine = total;
    for (int mask = 16; mask; mask /= 2) total += from_partner(total, mask);
    const float error = (mine / total - (lane == s.labels[number])) / s.batch;
    if (lane < n_classes) s.logits[row * n_classes + lane] = logit, s.errors[row * n_classes + lane] = error;
    for (int e = 0; e < job.n_entries; ++e) {
        const int side = ((const Entry*)s.entries)[job.entry + e].tile;
        float slope = 0;
        for (int c = 0; c < n_classes; ++c) slope += from_lane(error, c) * w[c * n_in + 8 * e + (lane & 7)];
        if (lane < 8) s.mean_slopes[((job.mean + e) * s.batch + b) * 8 + lane] = slope / (side * side);
    }
}

// Slopes in the weights and the bias of an output: a block for one group of images.
extern "C" __global__ void __launch_bounds__(THREADS) head_slopes(const Stack s, int from) {
    const Head& job = job_of<Head>(s, from + blockIdx.x);
    const int group = from + blockIdx.x - job.begin, n_classes = s.n_classes, n_in = 8 * job.n_entries;
    for (int at = threadIdx.x; at < n_classes * (n_in + 1); at += THREADS) {
        const bool is_bias = at >= n_classes * n_in;
        const int c = is_bias ? at - n_classes * n_in : at / n_in, k = is_bias ? 0 : at % n_in;
        float sum = 0;
        for (int b = first_of(s, group); b < first_of(s, group + 1); ++b) {
            const float mean = is_bias ? 1 : s.means[((job.mean + k / 8) * s.batch + b) * 8 + k % 8];
            sum += s.errors[(job.network * s.batch + b) * n_classes + c] * mean;
        }
        s.partials[group * s.n_weights + job.weights + at] = sum;
    }
}

// One step of Adam for every weight, and its bfloat16 copies.
extern "C" __global__ void __launch_bounds__(THREADS) adam(const Stack s, int from) {
    const size_t at = (size_t)(from + blockIdx.x) * THREADS + threadIdx.x;
    if (at >= s.n_weights) return;
    float slope = 0;
    for (int group = 0; group < s.n_groups; ++group) slope += s.partials[group * s.n_weights + at];
    const float first = BETA1 * s.first[at] + (1 - BETA1) * slope;
    const float second = BETA2 * s.second[at] + (1 - BETA2) * slope * slope;
    const float rate = s.rates[2 * *s.step], spread = s.rates[2 * *s.step + 1];
    const float weight = s.weights[at] - rate * first / (sqrtf(second) * spread + EPSILON);
    s.first[at] = first, s.second[at] = second, s.weights[at] = weight;
    if (at >= s.n_tiled) return;
    const int slot = at % TILE, tap = slot / 64, out = slot / 8 % 8, in = slot % 8;
    const unsigned short half = pack(weight, 0);
    ((unsigned short*)s.ahead)[at] = half;
    ((unsigned short*)s.back)[at - slot + 64 * (8 - tap) + 8 * in + out] = half;
}
