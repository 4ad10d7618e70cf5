/* The physical reference: Responses turns over WebSocket from frames that were built before they are asked for.
 *
 *     cc -O2 -o sender sender.c && ./sender FRAMES        listens on a free port of 127.0.0.1 and prints it
 *
 * FRAMES is written by prepared.py. A turn without a rate goes out in one write, as everything in it is ready at
 * once. A turn with a rate is sent delta by delta, each framed once and written to its creator and to every socket
 * that has attached. There is one such turn at a time. No JSON is parsed and nothing is kept: what this costs is
 * what the kernel costs. One thread, level-triggered epoll, one write per socket and frame.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "handshake.h"

enum { MAX_LINES = 64, MAX_PLANS = 16, READ_BYTES = 65536, LARGEST_MESSAGE = 1 << 20, STAMP_DIGITS = 19 };
#define STAMP_SLOT "###################"
enum { TEXT = 0x1, CLOSE = 0x8, PING = 0x9, PONG = 0xA };

typedef struct {
    char *bytes;
    size_t length, capacity;
} Buffer;

typedef struct {
    int fd, upgraded, watching, wants_write;
    Buffer received, unsent;
} Connection;

typedef struct {
    int deltas;
    Buffer frames;
} Turn;

/* The lines of FRAMES by their first letter: Head, Delta, Stamped delta, Tail. */
static char *head[MAX_LINES], *delta[MAX_LINES], *stamped, *tail[MAX_LINES];
static int heads, deltas_known, tails;
static Turn turns[MAX_PLANS];
static int turns_built;

static Connection **connections;
static int connections_max, highest_fd, epoll_fd, timer_fd;

/* The one paced turn: who asked for it, how many deltas it has, how many were sent. */
static struct {
    Connection *creator;
    int deltas, sent, active;
} paced;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void append(Buffer *buffer, const void *bytes, size_t length) {
    if (buffer->length + length > buffer->capacity) {
        buffer->capacity = (buffer->length + length) * 2;
        buffer->bytes = realloc(buffer->bytes, buffer->capacity);
        if (!buffer->bytes) die("realloc");
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

static void drop_front(Buffer *buffer, size_t length) {
    buffer->length -= length;
    memmove(buffer->bytes, buffer->bytes + length, buffer->length);
}

/* --- Frames ---------------------------------------------------------------------------------------------------- */

static void append_frame(Buffer *out, int opcode, const char *payload, size_t length) {
    unsigned char header[10] = {0x80 | opcode};
    int size = 2;
    if (length < 126) {
        header[1] = length;
    } else if (length < 65536) {
        header[1] = 126, header[2] = length >> 8, header[3] = length, size = 4;
    } else {
        header[1] = 127;
        for (int i = 0; i < 8; i++) header[2 + i] = (uint64_t)length >> (56 - 8 * i);
        size = 10;
    }
    append(out, header, size);
    append(out, payload, length);
}

/* A line with its number and its text in the two slots. */
static void append_line(Buffer *out, const char *line, int number, const Buffer *text) {
    Buffer payload = {0};
    char digits[16];
    for (const char *at = line; *at;) {
        if (!strncmp(at, "@NUMBER@", 8)) {
            append(&payload, digits, snprintf(digits, sizeof digits, "%d", number));
            at += 8;
        } else if (!strncmp(at, "@TEXT@", 6)) {
            append(&payload, text->bytes, text->length);
            at += 6;
        } else {
            append(&payload, at++, 1);
        }
    }
    append_frame(out, TEXT, payload.bytes, payload.length);
    free(payload.bytes);
}

/* The text of one delta stands between these quotes. */
static void append_text_of(Buffer *text, const char *line) {
    const char *from = strstr(line, "\"delta\":\"") + 9;
    append(text, from, strchr(from, '"') - from);
}

static void append_tail(Buffer *out, int count, const char *(*delta_line)(int)) {
    Buffer text = {0};
    for (int i = 0; i < count; i++) append_text_of(&text, delta_line(i));
    for (int i = 0; i < tails; i++) append_line(out, tail[i], heads + count + i, &text);
    free(text.bytes);
}

static const char *plain_line(int index) { return delta[index % deltas_known]; }
static const char *stamped_line(int index) { return (void)index, stamped; }

static const Buffer *whole_turn(int deltas) {
    for (int i = 0; i < turns_built; i++)
        if (turns[i].deltas == deltas) return &turns[i].frames;
    Turn *turn = &turns[turns_built < MAX_PLANS ? turns_built++ : MAX_PLANS - 1];
    turn->deltas = deltas;
    turn->frames.length = 0;
    for (int i = 0; i < heads; i++) append_line(&turn->frames, head[i], i, NULL);
    for (int i = 0; i < deltas; i++) append_line(&turn->frames, plain_line(i), heads + i, NULL);
    append_tail(&turn->frames, deltas, plain_line);
    return &turn->frames;
}

static void read_lines(const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    if (!file) die(path);
    while ((length = getline(&line, &capacity, file)) > 2) {
        line[length - 1] = 0;
        char *payload = strdup(line + 2);
        if (line[0] == 'H' && heads < MAX_LINES) head[heads++] = payload;
        if (line[0] == 'D' && deltas_known < MAX_LINES) delta[deltas_known++] = payload;
        if (line[0] == 'S') stamped = payload;
        if (line[0] == 'T' && tails < MAX_LINES) tail[tails++] = payload;
    }
    free(line);
    fclose(file);
    if (heads && deltas_known && stamped && tails && strstr(stamped, STAMP_SLOT)) return;
    fprintf(stderr, "%s is not what prepared.py writes\n", path);
    exit(1);
}

/* --- Sockets --------------------------------------------------------------------------------------------------- */

static void watch(Connection *connection, int wants_write) {
    struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.fd = connection->fd};
    connection->wants_write = wants_write;
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

static void end_connection(Connection *connection) {
    if (paced.creator == connection) paced.creator = NULL;
    connections[connection->fd] = NULL;
    close(connection->fd);
    free(connection->received.bytes);
    free(connection->unsent.bytes);
    free(connection);
}

/* What the kernel does not take now waits for EPOLLOUT. A socket that is gone ends at its next read. */
static void send_bytes(Connection *connection, const char *bytes, size_t length) {
    ssize_t sent = 0;
    if (!connection->unsent.length) sent = send(connection->fd, bytes, length, MSG_NOSIGNAL);
    if (sent < 0) sent = 0;
    if ((size_t)sent == length) return;
    append(&connection->unsent, bytes + sent, length - sent);
    if (!connection->wants_write) watch(connection, 1);
}

static void send_message(Connection *connection, const char *message) {
    Buffer frame = {0};
    append_frame(&frame, TEXT, message, strlen(message));
    send_bytes(connection, frame.bytes, frame.length);
    free(frame.bytes);
}

static void send_rest(Connection *connection) {
    ssize_t sent = send(connection->fd, connection->unsent.bytes, connection->unsent.length, MSG_NOSIGNAL);
    if (sent > 0) drop_front(&connection->unsent, sent);
    if (!connection->unsent.length) watch(connection, 0);
}

/* --- The paced turn -------------------------------------------------------------------------------------------- */

static void send_to_all(const Buffer *frames) {
    if (paced.creator) send_bytes(paced.creator, frames->bytes, frames->length);
    for (int fd = 0; fd <= highest_fd; fd++)
        if (connections[fd] && connections[fd]->watching) send_bytes(connections[fd], frames->bytes, frames->length);
}

static void send_due_deltas(void) {
    static Buffer frame, last;
    uint64_t due;
    if (read(timer_fd, &due, sizeof due) != sizeof due || !paced.active) return;
    for (; due && paced.sent < paced.deltas; due--, paced.sent++) {
        struct timespec now;
        char stamp[STAMP_DIGITS + 1];
        frame.length = 0;
        append_line(&frame, stamped, heads + paced.sent, NULL);
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(stamp, sizeof stamp, "%010lld%09ld", (long long)now.tv_sec, now.tv_nsec);
        memcpy(memmem(frame.bytes, frame.length, STAMP_SLOT, STAMP_DIGITS), stamp, STAMP_DIGITS);
        send_to_all(&frame);
    }
    if (paced.sent < paced.deltas) return;
    last.length = 0;
    append_tail(&last, paced.deltas, stamped_line);
    send_to_all(&last);
    paced.active = 0;
    timerfd_settime(timer_fd, 0, &(struct itimerspec){0}, NULL);
}

static void begin_paced(Connection *creator, int deltas, double rate) {
    if (paced.active) {
        send_message(creator, "{\"type\":\"error\",\"message\":\"the sender has one paced turn at a time\"}");
        return;
    }
    Buffer first = {0};
    for (int i = 0; i < heads; i++) append_line(&first, head[i], i, NULL);
    send_bytes(creator, first.bytes, first.length);
    free(first.bytes);
    paced.creator = creator, paced.deltas = deltas, paced.sent = 0, paced.active = 1;
    long long interval_ns = 1e9 / rate;
    struct timespec interval = {interval_ns / 1000000000, interval_ns % 1000000000};
    timerfd_settime(timer_fd, 0, &(struct itimerspec){interval, interval}, NULL);
}

/* --- What clients say ------------------------------------------------------------------------------------------ */

static double directive(const char *message, const char *name) {
    const char *at = strstr(message, "[[mock ");
    at = at ? strstr(at, name) : NULL;
    return at ? atof(at + strlen(name)) : 0;
}

static void answer(Connection *connection, const char *message) {
    if (strstr(message, "antiphon:hello")) {
        send_message(connection, "{\"type\":\"antiphon:welcome\"}");
    } else if (strstr(message, "antiphon:attach")) {
        connection->watching = 1;
        send_message(connection, "{\"type\":\"antiphon:attached\"}");
    } else if (strstr(message, "response.create")) {
        int deltas = directive(message, "deltas=");
        double rate = directive(message, "rate=");
        if (rate > 0) {
            begin_paced(connection, deltas, rate);
        } else {
            const Buffer *frames = whole_turn(deltas);
            send_bytes(connection, frames->bytes, frames->length);
        }
    }
}

/* Reads one masked frame. 0: not all of it is here; -1: the socket ends. */
static int read_frame(Connection *connection) {
    unsigned char *in = (unsigned char *)connection->received.bytes;
    size_t have = connection->received.length, length, at = 2;
    if (have < 2) return 0;
    if (!(in[0] & 0x80) || !(in[1] & 0x80)) return -1;
    length = in[1] & 0x7F;
    if (length >= 126) {
        int size = length == 126 ? 2 : 8;
        if (have < at + size) return 0;
        length = 0;
        for (int i = 0; i < size; i++) length = length << 8 | in[at++];
    }
    if (length > LARGEST_MESSAGE) return -1;
    if (have < at + 4 + length) return 0;
    char *payload = (char *)in + at + 4;
    for (size_t i = 0; i < length; i++) payload[i] ^= in[at + i % 4];
    int opcode = in[0] & 0x0F;
    if (opcode == TEXT) {
        char *message = strndup(payload, length);
        answer(connection, message);
        free(message);
    } else if (opcode == PING || opcode == CLOSE) {
        Buffer reply = {0};
        append_frame(&reply, opcode == PING ? PONG : CLOSE, payload, length);
        send_bytes(connection, reply.bytes, reply.length);
        free(reply.bytes);
    }
    drop_front(&connection->received, at + 4 + length);
    return opcode == CLOSE ? -1 : 1;
}

/* Answers the handshake once its headers are here; everything a client of the bench sends is taken for one. */
static int shake_hands(Connection *connection) {
    append(&connection->received, "", 1);
    connection->received.length--;
    char *end = strstr(connection->received.bytes, "\r\n\r\n");
    char *key = strcasestr(connection->received.bytes, "\r\nsec-websocket-key:");
    if (!end) return connection->received.length < READ_BYTES ? 0 : -1;
    if (!key) return -1;
    char accept[ACCEPT_LENGTH + 1], reply[256];
    key += 20 + strspn(key + 20, " ");
    accept_key(key, strcspn(key, " \r"), accept);
    int length = snprintf(reply, sizeof reply,
                      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      "Sec-WebSocket-Accept: %s\r\n\r\n", accept);
    send_bytes(connection, reply, length);
    drop_front(&connection->received, end + 4 - connection->received.bytes);
    connection->upgraded = 1;
    return 1;
}

static void read_socket(Connection *connection) {
    static char bytes[READ_BYTES];
    ssize_t length = recv(connection->fd, bytes, sizeof bytes, 0);
    int more = length > 0 ? 1 : length < 0 && errno == EAGAIN ? 0 : -1;
    if (more > 0) append(&connection->received, bytes, length);
    while (more > 0) more = connection->upgraded ? read_frame(connection) : shake_hands(connection);
    if (more < 0) end_connection(connection);
}

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connections[fd] = calloc(1, sizeof(Connection));
        if (!connections[fd]) die("calloc");
        connections[fd]->fd = fd;
        if (fd > highest_fd) highest_fd = fd;
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    }
}

static int listen_on_loopback(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 4096)) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("sender on http://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments) {
    struct rlimit files;
    struct epoll_event events[256];
    if (count != 2) return fprintf(stderr, "usage: sender FRAMES\n"), 2;
    read_lines(arguments[1]);
    getrlimit(RLIMIT_NOFILE, &files);
    connections_max = files.rlim_cur < 1 << 20 ? (int)files.rlim_cur : 1 << 20;
    connections = calloc(connections_max, sizeof *connections);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (!connections || epoll_fd < 0 || timer_fd < 0) die("start");
    int listener = listen_on_loopback();
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = timer_fd});
    for (;;) {
        int ready = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) accept_all(listener);
            else if (fd == timer_fd) send_due_deltas();
            else if (connections[fd] && events[i].events & EPOLLOUT) send_rest(connections[fd]);
            if (fd != listener && fd != timer_fd && connections[fd] && events[i].events & ~EPOLLOUT)
                read_socket(connections[fd]);
        }
    }
}
