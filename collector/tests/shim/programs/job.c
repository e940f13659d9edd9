/* Small programs that use the driver in every awkward way; each argument is one of them. Built twice: as `job` (the driver is opened
 * and looked up) and, with -DDIRECT, as `direct` (linked against the driver). Exit code 0 = the program saw what it expected. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t dptr;
typedef struct { int kind, handles, location_kind, location; char rest[32]; } properties;

#define MIB ((size_t)1 << 20)
#define CHECK(x) do { int got = (x); if (got) { fprintf(stderr, "line %d: %s = %d\n", __LINE__, #x, got); exit(1); } } while (0)
#define EXPECT(x) do { if (!(x)) { fprintf(stderr, "line %d: not %s\n", __LINE__, #x); exit(1); } } while (0)

static int (*mem_alloc)(dptr *, size_t);
static int (*mem_free)(dptr);
static int (*mem_alloc_pitch)(dptr *, size_t *, size_t, size_t, unsigned);
static int (*mem_alloc_managed)(dptr *, size_t, unsigned);
static int (*mem_alloc_async)(dptr *, size_t, void *);
static int (*mem_free_async)(dptr, void *);
static int (*mem_create)(uint64_t *, size_t, const properties *, unsigned long long);
static int (*mem_release)(uint64_t);
static int (*mem_map)(dptr, size_t, size_t, uint64_t, unsigned long long);
static int (*mem_unmap)(dptr, size_t);
static int (*mem_reserve)(dptr *, size_t, size_t, dptr, unsigned long long);
static int (*host_alloc)(void **, size_t, unsigned);
static int (*host_free)(void *);
static int (*host_register)(void *, size_t, unsigned);
static int (*host_unregister)(void *);
static int (*ctx_set)(void *);

/* How the functions above are found. */
static void *library;
static int (*ask_1)(const char *, void **, int, unsigned long long);
static int (*ask_2)(const char *, void **, int, unsigned long long, int *);
enum { BY_DLSYM, BY_ASK_1, BY_ASK_2, BY_ASK_THREAD } way = BY_DLSYM;

static void *find(const char *symbol, const char *query, int version) {
    void *found = NULL;
    int status = -1;
    switch (way) {
    case BY_DLSYM: found = dlsym(library, symbol); break;
    case BY_ASK_1: ask_1(query, &found, version, 0); break;
    case BY_ASK_2: ask_2(query, &found, version, 0, &status); EXPECT(status == 0); break;
    case BY_ASK_THREAD: ask_2(query, &found, version, 2, &status); EXPECT(status == 0); break;
    }
    EXPECT(found);
    return found;
}

static void load(void) {
#ifdef DIRECT
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
#else
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#endif
    EXPECT(library);
    if (way == BY_ASK_1) ask_1 = dlsym(library, "cuGetProcAddress");
    if (way == BY_ASK_2 || way == BY_ASK_THREAD) ask_2 = dlsym(library, "cuGetProcAddress_v2");
    mem_alloc = find("cuMemAlloc_v2", "cuMemAlloc", 12000);
    mem_free = find("cuMemFree_v2", "cuMemFree", 12000);
    mem_alloc_pitch = find("cuMemAllocPitch_v2", "cuMemAllocPitch", 12000);
    mem_alloc_managed = find("cuMemAllocManaged", "cuMemAllocManaged", 12000);
    mem_alloc_async = find("cuMemAllocAsync", "cuMemAllocAsync", 12000);
    mem_free_async = find("cuMemFreeAsync", "cuMemFreeAsync", 12000);
    mem_create = find("cuMemCreate", "cuMemCreate", 12000);
    mem_release = find("cuMemRelease", "cuMemRelease", 12000);
    mem_map = find("cuMemMap", "cuMemMap", 12000);
    mem_unmap = find("cuMemUnmap", "cuMemUnmap", 12000);
    mem_reserve = find("cuMemAddressReserve", "cuMemAddressReserve", 12000);
    host_alloc = find("cuMemHostAlloc", "cuMemHostAlloc", 12000);
    host_free = find("cuMemFreeHost", "cuMemFreeHost", 12000);
    host_register = find("cuMemHostRegister_v2", "cuMemHostRegister", 12000);
    host_unregister = find("cuMemHostUnregister", "cuMemHostUnregister", 12000);
    ctx_set = find("cuCtxSetCurrent", "cuCtxSetCurrent", 12000);
}

static void plain(void) {
    dptr a, b;
    size_t pitch;
    CHECK(mem_alloc(&a, 3 * MIB));
    CHECK(mem_alloc_managed(&b, 5 * MIB, 1));
    CHECK(mem_free(a));
    CHECK(mem_alloc_pitch(&a, &pitch, 1000, 100, 4));
    CHECK(ctx_set((void *)2));
    dptr other;
    CHECK(mem_alloc(&other, MIB));
    CHECK(mem_free(b));
    CHECK(mem_free(a));
    CHECK(mem_free(0) == 0 ? 1 : 0);
    CHECK(mem_free(other));
}

static void async(void) {
    dptr a, b;
    CHECK(mem_alloc_async(&a, 7 * MIB, (void *)16));
    CHECK(mem_alloc_async(&b, MIB, NULL));
    CHECK(mem_free_async(a, (void *)16));
    CHECK(mem_free_async(b, NULL));
}

static void virtual_memory(void) {
    properties on = {1, 0, 1, 1, {0}};
    dptr range;
    uint64_t handle[2];
    CHECK(mem_reserve(&range, 64 * MIB, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        CHECK(mem_create(&handle[i], 20 * MIB, &on, 0));
        CHECK(mem_map(range + i * 20 * MIB, 20 * MIB, 0, handle[i], 0));
    }
    CHECK(mem_unmap(range, 20 * MIB));
    CHECK(mem_release(handle[0]));
    CHECK(mem_unmap(range + 20 * MIB, 20 * MIB));
    CHECK(mem_release(handle[1]));
}

static void host(void) {
    static char mine[4096];
    void *pinned;
    CHECK(host_alloc(&pinned, 4 * MIB, 0));
    CHECK(host_register(mine, sizeof mine, 0));
    CHECK(host_unregister(mine));
    CHECK(host_free(pinned));
}

/* Run with fail=cuMemAlloc_v2@2:2 fail=cuMemFree_v2@1:1 fail=cuMemCreate@1:801 memory=100 MiB. */
static void failures(void) {
    dptr a, b;
    uint64_t handle;
    properties on = {1, 0, 1, 0, {0}};
    CHECK(mem_alloc(&a, MIB));
    EXPECT(mem_alloc(&b, MIB) == 2);
    EXPECT(mem_free(a) == 1);
    EXPECT(mem_create(&handle, MIB, &on, 0) == 801);
    EXPECT(mem_alloc(&b, 200 * MIB) == 2);
    EXPECT(mem_alloc(NULL, MIB) == 1);
    CHECK(mem_free(a));
}

static void *churn(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        dptr a;
        CHECK(mem_alloc(&a, 2 * MIB));
        CHECK(mem_free(a));
    }
    return NULL;
}

static void race(long threads, long rounds) {
    pthread_t all[64];
    for (long i = 0; i < threads; i++) pthread_create(&all[i], NULL, churn, (void *)rounds);
    for (long i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

/* More threads than lanes, one after the other: each gives its lane back when it ends. */
static void many_threads(void) {
    for (int i = 0; i < 200; i++) race(1, 1);
}

static void forks(void) {
    dptr a, b;
    CHECK(mem_alloc(&a, MIB));
    pid_t child = fork();
    if (child == 0) {
        CHECK(mem_alloc(&b, 3 * MIB));
        CHECK(mem_free(b));
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(mem_free(a));
}

static void replaced(char **argv) {
    dptr a;
    CHECK(mem_alloc(&a, MIB));
    char *next[] = {argv[0], "async", NULL};
    execv(argv[0], next);
    exit(1);
}

static void killed(void) {
    dptr a;
    for (int i = 0; i < 10; i++) CHECK(mem_alloc(&a, (i + 1) * MIB));
    kill(getpid(), SIGKILL);
}

/* Blocks inside and outside of segments, as PyTorch reports them. */
static void blocks(void) {
    void *c10 = dlopen("libc10.so", RTLD_NOW | RTLD_LOCAL);
    EXPECT(c10);
    void (*report)(dptr, int64_t, size_t, size_t, uint8_t, uint8_t) = dlsym(c10, "fake_c10_report");
    void (*report_1)(dptr, int64_t, int64_t, int64_t, uint8_t, uint8_t) = dlsym(c10, "fake_c10_report_1");
    void (*oom)(int64_t, size_t, size_t, uint8_t) = dlsym(c10, "fake_c10_out_of_memory");
    uint64_t (*reported)(void) = dlsym(c10, "fake_c10_reported");
    dptr library_memory, segment, failed;
    CHECK(mem_alloc(&library_memory, 8 * MIB));
    report((dptr)0x1000, 64, 64, 0, 0, 0); /* a block of host memory */
    CHECK(mem_alloc(&segment, 2 * MIB));
    report(segment, 1024, 1024, 2 * MIB, 1, 0);
    report(segment + 1024, 512, 1536, 2 * MIB, 1, 0);
    report_1(segment, -1024, 512, 2 * MIB, 1, 0);
    EXPECT(mem_alloc(&failed, (size_t)90 << 30) == 2);
    oom((int64_t)90 << 30, 512, 2 * MIB, 0);
    report(segment + 1024, -512, 0, 2 * MIB, 1, 0);
    CHECK(mem_free(segment));
    EXPECT(reported() == 6);
}

static void marks(void) {
    dptr a;
    void (*mark)(int, const char *, size_t) = dlsym(RTLD_DEFAULT, "vramscope_mark");
    if (!mark) return;
    mark(0, "before there is a ring", 22);
    CHECK(mem_alloc(&a, MIB));
    mark(1, "forward", 7);
    mark(0, "step 1", 6);
    mark(2, "forward", 7);
    char text[400];
    for (int i = 0; i < 400; i++) text[i] = 'a' + i % 26;
    mark(0, text, 32);
    mark(0, text, 33);
    mark(0, text, 256);
    mark(0, text, 257);
    mark(7, text, 3);
    mark(0, NULL, 3);
    CHECK(mem_free(a));
}

/* A minimal annotation library: what NVTX's own does with NVTX_INJECTION64_PATH. */
typedef void (*function)(void);
typedef struct { size_t bytes; int (*table)(unsigned, function ***, unsigned *); } callbacks;
static function core[16], domains[16];
static function *core_table[16], *domain_table[16];

static int get_table(unsigned module, function ***out, unsigned *size) {
    if (module != 1 && module != 5) return 0;
    *out = module == 1 ? core_table : domain_table;
    *size = 16;
    return 1;
}

static const void *export_table(unsigned which) {
    static callbacks table = {sizeof table, get_table};
    return which == 1 ? &table : NULL;
}

typedef struct { uint16_t version, size; uint32_t category; int32_t colour_kind; uint32_t colour; int32_t payload_kind, reserved;
                 uint64_t payload; int32_t text_kind; const void *text; } attributes;

static void nvtx(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (!path) return;
    for (int i = 1; i < 16; i++) core_table[i] = &core[i], domain_table[i] = &domains[i];
    int (*start)(const void *(*)(unsigned)) = dlsym(dlopen(path, RTLD_NOW), "InitializeInjectionNvtx2");
    EXPECT(start);
    if (!start(export_table)) return;
    dptr a;
    CHECK(mem_alloc(&a, MIB));
    EXPECT(((int (*)(const char *))core[9])("outer") == 0);
    EXPECT(((int (*)(const char *))core[9])("inner") == 1);
    ((void (*)(const char *))core[2])("here");
    EXPECT(((int (*)(void))core[11])() == 1);
    uint64_t range = ((uint64_t (*)(const char *))core[5])("across threads");
    EXPECT(((int (*)(void))core[11])() == 0);
    ((void (*)(uint64_t))core[7])(range);
    attributes event = {3, sizeof event, 0, 0, 0, 0, 0, 0, 1, "with attributes"};
    ((int (*)(const attributes *))core[8])(&event);
    ((int (*)(void))core[11])();
    event.text = ((const void *(*)(void *, const char *))domains[10])(NULL, "registered");
    event.text_kind = 3;
    ((int (*)(void *, const attributes *))domains[4])(NULL, &event);
    ((int (*)(void *))domains[5])(NULL);
    CHECK(mem_free(a));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Events of one thread in a tight loop; argument: events a second to pace at, 0 = as fast as possible. */
typedef struct { long events; double pace; double seconds; } work;
static void (*report)(dptr, int64_t, size_t, size_t, uint8_t, uint8_t);

static void *tight(void *argument) {
    work *w = argument;
    double start = now();
    for (long i = 0; i < w->events; i += 2) {
        report(0x7f0000000000 + i % 1024 * 512, 512, 512, 2 * MIB, 1, 0);
        report(0x7f0000000000 + i % 1024 * 512, -512, 0, 2 * MIB, 1, 0);
        if (w->pace > 0 && i % 64 == 0) while ((now() - start) * w->pace < i) {}
    }
    w->seconds = now() - start;
    return NULL;
}

static void bench(int threads, long events, double pace) {
    void *c10 = dlopen("libc10.so", RTLD_NOW | RTLD_LOCAL);
    EXPECT(c10);
    report = dlsym(c10, "fake_c10_report");
    pthread_t all[64];
    work w[64];
    for (int i = 0; i < threads; i++) {
        w[i] = (work){events, pace, 0};
        pthread_create(&all[i], NULL, tight, &w[i]);
    }
    double sum = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i], NULL);
        sum += w[i].seconds;
    }
    printf("%d threads %.1f ns an event\n", threads, sum / threads / events * 1e9);
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "plain";
    if (!strcmp(which, "bench")) {
        bench(atoi(argv[2]), atol(argv[3]), atof(argv[4]));
        return 0;
    }
    if (!strcmp(which, "missing")) {
        EXPECT(!dlopen("libcuda.so.1", RTLD_NOW));
        EXPECT(dlsym(RTLD_DEFAULT, "printf") && !dlsym(RTLD_NEXT, "main"));
        int (*absent)(dptr *, size_t) = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
        dptr a;
        EXPECT(!absent || absent(&a, MIB) == 302);
        return 0;
    }
    if (argc > 2) way = atoi(argv[2]);
    load();
    if (!strcmp(which, "plain")) plain();
    else if (!strcmp(which, "async")) async();
    else if (!strcmp(which, "virtual")) virtual_memory();
    else if (!strcmp(which, "host")) host();
    else if (!strcmp(which, "failures")) failures();
    else if (!strcmp(which, "race")) race(8, 2000);
    else if (!strcmp(which, "threads")) many_threads();
    else if (!strcmp(which, "fork")) forks();
    else if (!strcmp(which, "exec")) replaced(argv);
    else if (!strcmp(which, "exit")) { dptr a; CHECK(mem_alloc(&a, MIB)); _exit(0); }
    else if (!strcmp(which, "kill")) killed();
    else if (!strcmp(which, "blocks")) blocks();
    else if (!strcmp(which, "marks")) marks();
    else if (!strcmp(which, "nvtx")) nvtx();
    else return 2;
    return 0;
}
