/* Numbers for people. Rounded to three or four figures; the exact ones are in the JSON. */
#include "report/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct scale {
	double from; /* used for values of at least this */
	double divisor;
	const char *suffix;
};

static const struct scale count_scales[] = { { 1e13, 1e12, " T" }, { 1e10, 1e9, " G" }, { 1e6, 1e6, " M" } };
static const struct scale byte_scales[] = {
	{ 1099511627776.0, 1099511627776.0, " TiB" },
	{ 1073741824.0, 1073741824.0, " GiB" },
	{ 1048576.0, 1048576.0, " MiB" },
	{ 1024.0, 1024.0, " KiB" },
};
static const struct scale ns_scales[] = { { 1e9, 1e9, " s" }, { 1e6, 1e6, " ms" }, { 1e3, 1e3, " us" } };

static void scaled(char buf[UNIT_MAX], double v, const struct scale *s, size_t n, const char *plain)
{
	for (size_t i = 0; i < n; i++)
		if (v >= s[i].from) {
			double x = v / s[i].divisor;

			snprintf(buf, UNIT_MAX, "%.*f%s", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, s[i].suffix);
			return;
		}
	snprintf(buf, UNIT_MAX, "%.0f%s", v, plain);
}

void unit_grouped(char buf[32], uint64_t value)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, value);
	char *to = buf;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
}

void unit_format(char buf[UNIT_MAX], enum unit_style style, uint64_t value, unsigned decimals)
{
	double v = (double)value;
	char grouped[32];

	for (unsigned i = 0; i < decimals; i++)
		v /= 10;
	switch (style) {
	case STYLE_COUNT:
		if (v < 1e6 && !decimals) {
			unit_grouped(grouped, value);
			snprintf(buf, UNIT_MAX, "%.20s", grouped);
			return;
		}
		scaled(buf, v, count_scales, sizeof(count_scales) / sizeof(count_scales[0]), "");
		break;
	case STYLE_BYTES:
		scaled(buf, v, byte_scales, sizeof(byte_scales) / sizeof(byte_scales[0]), " B");
		break;
	case STYLE_NS:
		scaled(buf, v, ns_scales, sizeof(ns_scales) / sizeof(ns_scales[0]), " ns");
		break;
	case STYLE_RATIO:
		snprintf(buf, UNIT_MAX, "%.*f", v < 9.9995 ? 3 : 1, v);
		break;
	case STYLE_PERCENT:
		snprintf(buf, UNIT_MAX, "%.1f %%", v * 100);
		break;
	}
}
