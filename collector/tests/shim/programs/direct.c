/* A program linked against the driver: the linker binds its calls, nothing is looked up. */
#include <stdint.h>
#include <stddef.h>

int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);

int main(void) {
    uint64_t a;
    if (cuMemAlloc_v2(&a, 6 << 20)) return 1;
    return cuMemFree_v2(a);
}
