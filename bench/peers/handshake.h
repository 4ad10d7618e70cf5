/* The answer to a WebSocket's handshake (RFC 6455, 4.2.2): base64 of SHA-1 of the client's key and a GUID. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ACCEPT_LENGTH = 28, LONGEST_HASHED = 119 };

static uint32_t rotate(uint32_t word, int by) { return word << by | word >> (32 - by); }

/* SHA-1 of at most LONGEST_HASHED bytes: what fits two blocks. */
static void sha1(const char *text, size_t length, unsigned char digest[20]) {
    uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    unsigned char blocks[128] = {0};
    size_t total = length < 56 ? 64 : 128;
    memcpy(blocks, text, length);
    blocks[length] = 0x80;
    for (int i = 0; i < 8; i++) blocks[total - 1 - i] = (uint64_t)length * 8 >> (8 * i);
    for (size_t block = 0; block < total; block += 64) {
        uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
        for (int i = 0; i < 16; i++) {
            const unsigned char *at = blocks + block + 4 * i;
            w[i] = (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
        }
        for (int i = 16; i < 80; i++) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        for (int i = 0; i < 80; i++) {
            uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
            uint32_t k = i < 20 ? 0x5A827999 : i < 40 ? 0x6ED9EBA1 : i < 60 ? 0x8F1BBCDC : 0xCA62C1D6;
            uint32_t next = rotate(a, 5) + f + e + k + w[i];
            e = d, d = c, c = rotate(b, 30), b = a, a = next;
        }
        h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
    }
    for (int i = 0; i < 20; i++) digest[i] = h[i / 4] >> (24 - 8 * (i % 4));
}

/* accept: ACCEPT_LENGTH characters and a zero. */
static void accept_key(const char *key, size_t length, char *accept) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[LONGEST_HASHED + 1];
    unsigned char digest[21] = {0};
    int hashed = snprintf(text, sizeof text, "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", (int)length, key);
    sha1(text, hashed > LONGEST_HASHED ? LONGEST_HASHED : hashed, digest);
    for (int i = 0; i < ACCEPT_LENGTH - 1; i++) {
        const unsigned char *at = digest + i / 4 * 3;
        uint32_t three = at[0] << 16 | at[1] << 8 | at[2];
        accept[i] = letters[three >> (18 - i % 4 * 6) & 63];
    }
    accept[ACCEPT_LENGTH - 1] = '=';
    accept[ACCEPT_LENGTH] = 0;
}
