/* Members of a tar file in memory: ustar, with GNU and pax long names. */
#include "data/bytes.h"

/* An octal field of n bytes, ended by a blank or zero byte; the high bit of the first byte announces a binary number (GNU). */
static bool octal(const unsigned char *p, size_t n, uint64_t *out)
{
    *out = 0;
    if (p[0] & 0x80) {
        for (size_t i = n - 8; i < n; i++) *out = *out << 8 | p[i];
        return true;
    }
    size_t i = 0;
    while (i < n && p[i] == ' ') i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++) *out = *out << 3 | (uint64_t)(p[i] - '0');
    return i == n || p[i] == ' ' || p[i] == 0;
}

/* "27 path=folder/file\n" among the records of a pax header. */
static void pax_path(const char *s, size_t n, char *name, size_t room)
{
    const char *end = s + n;
    while (s < end) {
        size_t length = 0;
        const char *record = s;
        while (s < end && *s >= '0' && *s <= '9' && length < n) length = length * 10 + (size_t)(*s++ - '0');
        if (length == 0 || length > (size_t)(end - record)) return;
        const char *stop = record + length - 1;
        if (stop - s > 6 && memcmp(s, " path=", 6) == 0 && (size_t)(stop - s - 6) < room) {
            memcpy(name, s + 6, (size_t)(stop - s - 6));
            name[stop - s - 6] = 0;
        }
        s = record + length;
    }
}

bool cj__tar_next(const cj_bytes *b, size_t *at, cj_tar_member *m, bool *found)
{
    char long_name[sizeof m->name] = "";
    *found = false;
    while (*at < b->n) {
        const unsigned char *p = cj__bytes_at(b, *at, 512, "a tar header");
        if (!p) return false;
        if (p[0] == 0) return true; /* the end is marked by zeros */
        uint64_t n, sum, own = 0;
        if (!octal(p + 124, 12, &n) || !octal(p + 148, 8, &sum))
            return cj__bytes_error(b, *at, "sizes in octal of a tar header were expected");
        for (int i = 0; i < 512; i++) own += i >= 148 && i < 156 ? ' ' : p[i];
        if (own != sum)
            return cj__bytes_error(b, *at, "a tar header with check sum %llu was expected, %llu was found", (unsigned long long)own,
                                   (unsigned long long)sum);
        size_t start = *at + 512;
        if (n > b->n - start)
            return cj__bytes_error(b, start, "%llu bytes of a member were expected, %zu were found", (unsigned long long)n, b->n - start);
        char kind = (char)p[156];
        *at = start + (n + 511) / 512 * 512;
        if (*at > b->n) *at = b->n;
        if (kind == 'L' && n < sizeof long_name) {
            memcpy(long_name, b->data + start, n);
            long_name[n] = 0;
        } else if (kind == 'x') {
            pax_path((const char *)b->data + start, n, long_name, sizeof long_name);
        } else if (kind == '0' || kind == 0) {
            const char *name = (const char *)p, *prefix = (const char *)p + 345;
            if (*long_name) memcpy(m->name, long_name, sizeof m->name);
            else if (memcmp(p + 257, "ustar", 5) == 0 && *prefix) snprintf(m->name, sizeof m->name, "%.155s/%.100s", prefix, name);
            else snprintf(m->name, sizeof m->name, "%.100s", name);
            m->offset = start;
            m->n = n;
            return *found = true;
        } else {
            *long_name = 0;
        }
    }
    return true;
}

bool cj__tar_find(const cj_bytes *b, const char *name, cj_bytes *out)
{
    cj_tar_member m;
    size_t at = 0, want = strlen(name);
    bool found;
    while (cj__tar_next(b, &at, &m, &found)) {
        if (!found) return cj__bytes_error(b, at, "a member %s was expected, none was found", name);
        size_t n = strlen(m.name);
        if (n < want || strcmp(m.name + n - want, name) != 0 || (n > want && m.name[n - want - 1] != '/')) continue;
        *out = (cj_bytes){ .ctx = b->ctx, .op = b->op, .path = b->path, .data = b->data + m.offset, .n = m.n };
        return true;
    }
    return false;
}
