/* Numbers for people: short, with a unit, never wider than nine characters. */
#ifndef QUIRE_REPORT_UNITS_H
#define QUIRE_REPORT_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum unit_style { STYLE_COUNT, STYLE_BYTES, STYLE_NS, STYLE_RATIO, STYLE_PERCENT };

#define UNIT_MAX 24

/* value times 10^decimals. STYLE_PERCENT: value is a ratio. */
void unit_format(char buf[UNIT_MAX], enum unit_style style, uint64_t value, unsigned decimals);
/* 1234567 as "1,234,567". */
void unit_grouped(char buf[32], uint64_t value);

#endif
