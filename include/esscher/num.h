/* num.h : a number that knows how wrong it may be. */
#ifndef ESSCHER_NUM_H
#define ESSCHER_NUM_H

/* |true value - val| <= err. The tests check the claim, not only the value. */
typedef struct es_num {
    double val, err;
} es_num;

#endif
