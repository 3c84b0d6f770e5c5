/* The bits of a trace word that the model reads; the format is trace/word.h's (a test compares the two). */
#ifndef QUIRE_MACHINE_MODEL_REPLAY_WORD_H
#define QUIRE_MACHINE_MODEL_REPLAY_WORD_H

#include <stdint.h>

#define REPLAY_CONTROL (1ULL << 63)
#define REPLAY_STORE (1ULL << 59)
#define REPLAY_ADDR_MASK ((1ULL << 47) - 1)
#define REPLAY_INSNS(w) ((w) >> 47 & 0xfff)
#define REPLAY_LOG2_SIZE(w) ((w) >> 60 & 7)

#endif
