/* A small HTTP server for tests/data.sh: the files of a folder on 127.0.0.1, one request at a time, parts of files by their range.
 *
 *   file_server FOLDER    prints its port; FOLDER/.asked becomes the list of requests, "GET /names/names.txt from 100"
 *
 * While FOLDER/.cut is there, it holds a number: an answer breaks off after so many bytes.  It ends with its parent.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void answer(int peer, const char *folder)
{
    char request[4096], path[512], file[1024], head[256], piece[4096];
    size_t n = 0;
    ssize_t got;
    while (n < sizeof request - 1 && (got = read(peer, request + n, sizeof request - 1 - n)) > 0) {
        n += (size_t)got;
        request[n] = 0;
        if (strstr(request, "\r\n\r\n")) break;
    }
    request[n] = 0;
    if (sscanf(request, "GET %500s", path) != 1) return;
    const char *range = strstr(request, "Range: bytes=");
    long from = range ? strtol(range + 13, NULL, 10) : 0, cut = -1;
    snprintf(file, sizeof file, "%s/.asked", folder);
    FILE *log = fopen(file, "a");
    if (log) fprintf(log, "GET %s from %ld\n", path, from), fclose(log);
    snprintf(file, sizeof file, "%s/.cut", folder);
    FILE *c = fopen(file, "r");
    if (c && fscanf(c, "%ld", &cut) != 1) cut = -1;
    if (c) fclose(c);
    snprintf(file, sizeof file, "%s%s", folder, path);
    FILE *f = strstr(path, "..") ? NULL : fopen(file, "rb");
    if (!f) {
        static const char none[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        if (write(peer, none, sizeof none - 1) < 0) return;
        return;
    }
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fseek(f, from, SEEK_SET);
    int length = from > 0
                     ? snprintf(head, sizeof head,
                                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %ld-%ld/%ld\r\nContent-Length: %ld\r\nConnection: "
                                "close\r\n\r\n",
                                from, size - 1, size, size - from)
                     : snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\nConnection: close\r\n\r\n", size);
    if (write(peer, head, (size_t)length) < 0) cut = 0;
    while (cut != 0 && (n = fread(piece, 1, cut > 0 && cut < (long)sizeof piece ? (size_t)cut : sizeof piece, f)) > 0) {
        if (write(peer, piece, n) < 0) break;
        if (cut > 0) cut -= (long)n;
    }
    fclose(f);
}

int main(int argc, char **argv)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 2 || s < 0 || bind(s, (struct sockaddr *)&a, size) || listen(s, 8) || getsockname(s, (struct sockaddr *)&a, &size))
        return 1;
    printf("%d\n", ntohs(a.sin_port));
    fclose(stdout);
    for (int peer; (peer = accept(s, NULL, NULL)) >= 0;) {
        answer(peer, argv[1]);
        shutdown(peer, SHUT_WR);
        close(peer);
    }
    return 1;
}
