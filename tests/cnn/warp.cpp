// Runs the kernels of stacked.cu on the CPU: every lane of a warp is a fiber, and the lanes meet where they exchange values.
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(...)
#define __shared__ static

struct Index { int x; };
static Index threadIdx, blockIdx;
static ucontext_t scheduler, fibers[32];
static bool done[32];
static int current;
static float floats[32];
static unsigned words[32][6];

static void meet() { swapcontext(&fibers[current], &scheduler); }

static void copy(void* to, const void* from, bool is_there) { is_there ? memcpy(to, from, 16) : memset(to, 0, 16); }
static void close() {}
static void __syncwarp() { meet(); }
template <int N> static void arrived() { meet(); }
static float of_bits(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
static unsigned lows(unsigned a, unsigned b) { return (a & 0xffff) | b << 16; }
static unsigned highs(unsigned a, unsigned b) { return a >> 16 | (b & 0xffff0000u); }
static unsigned rounded(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static unsigned pack(float low, float high) { return rounded(low) | rounded(high) << 16; }
static float half(unsigned both, int i) { return of_bits(i ? both & 0xffff0000u : both << 16); }

static float from_lane(float value, int lane) {
    floats[current] = value;
    meet();
    float result = floats[lane];
    meet();
    return result;
}
static float from_partner(float value, int mask) { return from_lane(value, current ^ mask); }

static void multiply(float* c, int depth) {  // depth: columns of A
    meet();
    const int g = current / 4, t = current % 4;
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < depth; ++k) {
            const unsigned* a = words[g * 4 + k % 8 / 2];
            const unsigned* b = words[(2 * t + i % 2) * 4 + k % 8 / 2];
            c[i] += half(a[k / 8 * 2 + i / 2], k % 2) * half(b[4 + k / 8], k % 2);
        }
    meet();
}
static void mma16(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    const unsigned mine[6] = {a0, a1, a2, a3, b0, b1};
    memcpy(words[current], mine, sizeof mine);
    multiply(c, 16);
}
static void mma8(float* c, unsigned a0, unsigned a1, unsigned b0) {
    const unsigned mine[6] = {a0, a1, 0, 0, b0, 0};
    memcpy(words[current], mine, sizeof mine);
    multiply(c, 8);
}

#include STACKED

static void (*running)(Stack, int);
static const Stack* stack;
static int from;

static void lane_main() {
    running(*stack, from);
    done[current] = true;
    swapcontext(&fibers[current], &scheduler);
}

extern "C" void launch(const char* name, const Stack* s, int first, int n_blocks) {
    const std::vector<std::pair<const char*, void (*)(Stack, int)>> kernels = {
        {"convolve_ahead", convolve_ahead}, {"convolve_back", convolve_back}, {"pool", pool}, {"unpool", unpool},
        {"weight_slopes", weight_slopes},   {"head", head},                   {"head_slopes", head_slopes},
        {"adam", adam}};
    for (auto& kernel : kernels)
        if (!strcmp(kernel.first, name)) running = kernel.second;
    stack = s, from = first;
    static std::vector<char> stacks(32 * 65536);
    for (blockIdx.x = 0; blockIdx.x < n_blocks; ++blockIdx.x)
        for (int warp = 0; warp < THREADS / 32; ++warp) {
            for (int lane = 0; lane < 32; ++lane) {
                getcontext(&fibers[lane]);
                fibers[lane].uc_stack.ss_sp = &stacks[lane * 65536];
                fibers[lane].uc_stack.ss_size = 65536;
                fibers[lane].uc_link = &scheduler;
                makecontext(&fibers[lane], lane_main, 0);
                done[lane] = false;
            }
            for (bool any = true; any;) {
                any = false;
                for (int lane = 0; lane < 32; ++lane)
                    if (!done[lane]) {
                        current = lane, threadIdx.x = 32 * warp + lane, any = true;
                        swapcontext(&scheduler, &fibers[lane]);
                    }
            }
        }
}
