#include "stats/average.h"

#include <math.h>

void es_average_rows(const double *draws, int64_t count, int64_t rows, int64_t numbers, double *out)
{
    const double R = (double)count;
    const int64_t width = rows * numbers;
    for (int64_t e = 0; e < width; e++) {
        double sum = 0.0, squares = 0.0;
        for (int64_t r = 0; r < count; r++)
            sum += draws[r * width + e];
        const double mean = sum / R;
        for (int64_t r = 0; r < count; r++)
            squares += (draws[r * width + e] - mean) * (draws[r * width + e] - mean);
        double *to = out + (e / numbers) * 2 * numbers + e % numbers;
        to[0] = mean;
        to[numbers] = count > 1 ? sqrt(squares / (R - 1.0) / R) : (double)NAN;
    }
}

double es_block_se(double scatter, double weight, int64_t count)
{
    const double blocks = (double)count;
    return count > 1 ? sqrt(fmax(scatter, 0.0) * blocks / (blocks - 1.0)) / weight : (double)NAN;
}
