/* Has the files of a process lie on a medium that forgets: what is written, made, renamed or
 * removed below a directory and not synced can be undone from outside after the process was killed,
 * as if the machine had lost its power. Syncs can fail, and they can be a lie.
 *
 * Before octets of a file are replaced they are saved behind a record in a side file named after
 * the file's inode; a sync that ends well says there up to which write it counts. Creations,
 * renames and removals are lines of the file `names`. Numbers of writes rise for all files, and
 * from one process to the next.
 *
 * MEDIUM_DATA   the directory, without symbolic links
 * MEDIUM_UNDO   the directory of the side files, on the same file system
 * MEDIUM_FAILS  while this file is there, syncs of files fail whose paths have its text in them
 * MEDIUM_LIES   syncs do nothing and say that all is well
 *
 * Writes through a mapping are not seen, nor those of system calls that are made without the C
 * library. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITTEN = 1, SYNCED = 2 };
enum { FILES_MAX = 4096, CHUNK = 1 << 16, PAGE = 4096 };
enum { APPENDS = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC };

/* As loss.rs reads it; `saved` octets follow. */
struct record {
    uint64_t kind;
    /* The write's number; or the last one that is synced. */
    uint64_t number;
    /* The octets that are written, or synced: all, if there are none. */
    uint64_t offset, extent;
    /* So many of them were there before; the rest was behind the end. */
    uint64_t saved;
    /* How long the file was. */
    uint64_t length;
};

struct file {
    dev_t device;
    ino_t inode;
    int is_directory;
    /* The file opened for reading, and its side file. */
    int reading, side;
    /* The last write's number. */
    uint64_t last;
    /* Held from before octets are saved until they are replaced. */
    pthread_mutex_t lock;
    char path[PATH_MAX];
};

/* What a write is between its begin and its end. */
struct change {
    struct file *file;
    uint64_t offset, extent;
    int is_through;
};

static const char *data, *undo, *fails;
static int lies, names = -1;
static uint64_t numbers;
static struct file *files[FILES_MAX];
static int count;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin_to_watch(void)
{
    struct timespec now;
    char path[PATH_MAX];
    undo = getenv("MEDIUM_UNDO");
    fails = getenv("MEDIUM_FAILS");
    lies = getenv("MEDIUM_LIES") != NULL;
    if (!undo)
        return;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    numbers = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    snprintf(path, sizeof path, "%s/names", undo);
    names = (int)syscall(SYS_openat, AT_FDCWD, path, APPENDS, 0600);
    data = getenv("MEDIUM_DATA");
}

static uint64_t next_number(void)
{
    return __atomic_add_fetch(&numbers, 1, __ATOMIC_SEQ_CST);
}

static int is_below(const char *path)
{
    size_t length = data ? strlen(data) : 0;
    return data && !strncmp(path, data, length) && (!path[length] || path[length] == '/');
}

/* A saved state that cannot be kept makes the run worthless. */
static void must(int is_well)
{
    if (!is_well)
        abort();
}

static void put(int to, const void *from, size_t length)
{
    while (length) {
        long done = syscall(SYS_write, to, from, length);
        must(done > 0);
        from = (const char *)from + done;
        length -= (size_t)done;
    }
}

/* The path of an open file, without symbolic links. */
static int path_of(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    return 1;
}

/* The path of a name in a directory, without symbolic links before the last part. */
static int canonical(const char *path, char out[PATH_MAX])
{
    char parent[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= PATH_MAX)
        return 0;
    memcpy(parent, path, length);
    parent[length] = 0;
    if (!realpath(slash ? (length ? parent : "/") : ".", real))
        return 0;
    return snprintf(out, PATH_MAX, "%s/%s", real, slash ? slash + 1 : path) < PATH_MAX;
}

static void side_path(ino_t inode, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%ju", undo, (uintmax_t)inode);
}

/* With the table locked. */
static struct file *add(int fd, const struct stat *state)
{
    char path[PATH_MAX], link[64];
    if (!path_of(fd, path) || !is_below(path))
        return NULL;
    must(count < FILES_MAX);
    struct file *file = calloc(1, sizeof *file);
    must(file != NULL);
    file->device = state->st_dev;
    file->inode = state->st_ino;
    file->is_directory = S_ISDIR(state->st_mode);
    strcpy(file->path, path);
    pthread_mutex_init(&file->lock, NULL);
    if (!file->is_directory) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        file->reading = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
        side_path(file->inode, path);
        file->side = (int)syscall(SYS_openat, AT_FDCWD, path, APPENDS, 0600);
        must(file->reading >= 0 && file->side >= 0);
    }
    files[count++] = file;
    return file;
}

static struct file *find(int fd)
{
    struct stat state;
    if (!data || fstat(fd, &state) || !(S_ISREG(state.st_mode) || S_ISDIR(state.st_mode)))
        return NULL;
    struct file *found = NULL;
    pthread_mutex_lock(&table);
    for (int at = 0; at < count && !found; at++)
        if (files[at]->inode == state.st_ino && files[at]->device == state.st_dev)
            found = files[at];
    if (!found)
        found = add(fd, &state);
    pthread_mutex_unlock(&table);
    return found;
}

/* A new file has the number of one that is gone: what was saved of that is of no use. */
static void forget(const struct stat *state)
{
    char path[PATH_MAX];
    pthread_mutex_lock(&table);
    for (int at = 0; at < count; at++)
        if (files[at]->inode == state->st_ino && files[at]->device == state->st_dev)
            files[at]->inode = 0;
    pthread_mutex_unlock(&table);
    side_path(state->st_ino, path);
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* Saves what stands where something will be written. With the file locked. */
static void save(struct file *file, uint64_t offset, uint64_t extent)
{
    struct stat state;
    char octets[CHUNK];
    must(!fstat(file->reading, &state));
    uint64_t length = (uint64_t)state.st_size, saved = 0;
    if (offset < length)
        saved = extent < length - offset ? extent : length - offset;
    file->last = next_number();
    struct record record = {WRITTEN, file->last, offset, extent, saved, length};
    put(file->side, &record, sizeof record);
    for (uint64_t done = 0; done < saved;) {
        size_t want = saved - done < CHUNK ? (size_t)(saved - done) : CHUNK;
        long read = syscall(SYS_pread64, file->reading, octets, want, (long)(offset + done));
        must(read > 0);
        put(file->side, octets, (size_t)read);
        done += (uint64_t)read;
    }
}

/* What was written before `number` in this part is on the medium: nothing of it can be lost. */
static void clear(struct file *file, uint64_t number, uint64_t offset, uint64_t extent)
{
    pthread_mutex_lock(&file->lock);
    struct record record = {SYNCED, number, offset, extent, 0, 0};
    if (extent == 0 && file->last <= number)
        must(!syscall(SYS_ftruncate, file->side, 0L));
    else
        put(file->side, &record, sizeof record);
    pthread_mutex_unlock(&file->lock);
}

/* Begins to write to a file, at its current position if `offset` is negative. */
static struct change begin(int fd, off_t offset, uint64_t extent)
{
    int error = errno;
    struct change change = {find(fd), 0, extent, 0};
    if (change.file && change.file->is_directory)
        change.file = NULL;
    if (change.file && extent) {
        int flags = fcntl(fd, F_GETFL);
        pthread_mutex_lock(&change.file->lock);
        if (offset < 0)
            offset = lseek(fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
        change.offset = (uint64_t)offset;
        change.is_through = (flags & O_DSYNC) && !lies;
        save(change.file, change.offset, extent);
    } else {
        change.file = NULL;
    }
    errno = error;
    return change;
}

static long end(struct change change, long done)
{
    int error = errno;
    if (change.file) {
        uint64_t number = change.file->last;
        pthread_mutex_unlock(&change.file->lock);
        if (change.is_through && done > 0) {
            /* Whole pages go to the medium. */
            uint64_t from = change.offset / PAGE * PAGE;
            uint64_t to = (change.offset + (uint64_t)done + PAGE - 1) / PAGE * PAGE;
            clear(change.file, number, from, to - from);
        }
    }
    errno = error;
    return done;
}

static uint64_t sum(const struct iovec *parts, int many)
{
    uint64_t all = 0;
    for (int at = 0; at < many; at++)
        all += parts[at].iov_len;
    return all;
}

ssize_t write(int fd, const void *from, size_t length)
{
    struct change change = begin(fd, -1, length);
    return end(change, syscall(SYS_write, fd, from, length));
}

ssize_t writev(int fd, const struct iovec *parts, int many)
{
    struct change change = begin(fd, -1, sum(parts, many));
    return end(change, syscall(SYS_writev, fd, parts, many));
}

ssize_t pwrite64(int fd, const void *from, size_t length, off64_t offset)
{
    struct change change = begin(fd, offset, length);
    return end(change, syscall(SYS_pwrite64, fd, from, length, offset));
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t offset)
{
    return pwrite64(fd, from, length, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int many, off64_t offset)
{
    struct change change = begin(fd, offset, sum(parts, many));
    return end(change, syscall(SYS_pwritev, fd, parts, many, offset, 0L));
}

ssize_t pwritev(int fd, const struct iovec *parts, int many, off_t offset)
{
    return pwritev64(fd, parts, many, offset);
}

static long cut(struct file *file, int fd, off64_t length)
{
    int error = errno;
    struct stat state;
    if (!file || file->is_directory)
        return syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&file->lock);
    must(!fstat(file->reading, &state));
    if (length < state.st_size)
        save(file, (uint64_t)length, (uint64_t)(state.st_size - length));
    else
        save(file, (uint64_t)length, 0);
    errno = error;
    long done = syscall(SYS_ftruncate, fd, length);
    pthread_mutex_unlock(&file->lock);
    return done;
}

int ftruncate64(int fd, off64_t length)
{
    return (int)cut(find(fd), fd, length);
}

int ftruncate(int fd, off_t length)
{
    return ftruncate64(fd, length);
}

/* Whether syncs of this file are to fail now. */
static int is_failing(const struct file *file)
{
    char text[PATH_MAX];
    int trigger = fails ? (int)syscall(SYS_openat, AT_FDCWD, fails, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (trigger < 0)
        return 0;
    long length = syscall(SYS_read, trigger, text, sizeof text - 1);
    syscall(SYS_close, trigger);
    if (length <= 0)
        return 0;
    text[length] = 0;
    return strstr(file->path, text) != NULL;
}

static void note(const char *format, ...)
{
    char line[4 * PATH_MAX];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    must(length > 0 && (size_t)length < sizeof line);
    put(names, line, (size_t)length);
}

static int sync_with(long call, int fd)
{
    int error = errno;
    struct file *file = find(fd);
    errno = error;
    if (!file)
        return (int)syscall(call, fd);
    if (is_failing(file)) {
        errno = EIO;
        return -1;
    }
    errno = error;
    if (lies)
        return 0;
    /* Whoever writes has the lock until it has written. */
    pthread_mutex_lock(&file->lock);
    uint64_t number = next_number();
    pthread_mutex_unlock(&file->lock);
    int failed = (int)syscall(call, fd);
    if (failed)
        return failed;
    if (file->is_directory)
        note("synced\t%ju\t%s\n", (uintmax_t)number, file->path);
    else
        clear(file, number, 0, 0);
    return 0;
}

int fsync(int fd)
{
    return sync_with(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_with(SYS_fdatasync, fd);
}

/* What is in a file that is opened to be overwritten. */
static void save_all(const char *path)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    struct stat state;
    struct file *file = fd < 0 ? NULL : find(fd);
    if (file && !file->is_directory && !fstat(fd, &state)) {
        pthread_mutex_lock(&file->lock);
        save(file, 0, (uint64_t)state.st_size);
        pthread_mutex_unlock(&file->lock);
    }
    if (fd >= 0)
        syscall(SYS_close, fd);
}

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    int error = errno;
    struct stat state;
    char name[PATH_MAX];
    if (!data || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
        return (int)syscall(SYS_openat, folder, path, flags, mode);
    int was_there = !fstatat(folder, path, &state, 0);
    if (was_there && flags & O_TRUNC && state.st_size && folder == AT_FDCWD)
        save_all(path);
    errno = error;
    uint64_t number = next_number();
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    error = errno;
    if (fd >= 0 && !was_there && path_of(fd, name) && is_below(name) && !fstat(fd, &state)) {
        forget(&state);
        note("made\t%ju\t%s\n", (uintmax_t)number, name);
    }
    errno = error;
    return fd;
}

static mode_t mode_of(int flags, va_list values)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(values, mode_t) : 0;
}

#define OPEN(name, parameters, folder)             \
    int name parameters                            \
    {                                              \
        va_list values;                            \
        va_start(values, flags);                   \
        mode_t mode = mode_of(flags, values);      \
        va_end(values);                            \
        return open_at(folder, path, flags, mode); \
    }

OPEN(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN(openat, (int folder, const char *path, int flags, ...), folder)
OPEN(openat64, (int folder, const char *path, int flags, ...), folder)

/* Keeps a file that will lose its name; the name that it has meanwhile, or none. */
static void keep(const char *path, uint64_t number, char saved[PATH_MAX])
{
    struct stat state;
    saved[0] = 0;
    if (lstat(path, &state) || !S_ISREG(state.st_mode))
        return;
    must(snprintf(saved, PATH_MAX, "%s/kept-%ju", undo, (uintmax_t)number) < PATH_MAX);
    if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, saved, 0))
        saved[0] = 0;
}

int rename(const char *from, const char *to)
{
    int error = errno;
    char old[PATH_MAX], new[PATH_MAX], saved[PATH_MAX];
    int is_ours = data && canonical(from, old) && canonical(to, new);
    is_ours = is_ours && is_below(old) && is_below(new);
    uint64_t number = next_number();
    if (is_ours)
        keep(new, number, saved);
    errno = error;
    int failed = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    error = errno;
    if (is_ours && !failed)
        note("renamed\t%ju\t%s\t%s\t%s\n", (uintmax_t)number, new, old, saved);
    errno = error;
    return failed;
}

int unlink(const char *path)
{
    int error = errno;
    char name[PATH_MAX], saved[PATH_MAX];
    int is_ours = data && canonical(path, name) && is_below(name);
    uint64_t number = next_number();
    if (is_ours)
        keep(name, number, saved);
    errno = error;
    int failed = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    error = errno;
    if (is_ours && !failed && saved[0])
        note("removed\t%ju\t%s\t%s\n", (uintmax_t)number, name, saved);
    errno = error;
    return failed;
}
