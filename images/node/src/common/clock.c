#include "common/clock.h"

double clock_resolution_s(void)
{
    enum { STEPS = 100, READINGS = 100000 }; /* the readings are bounded because a virtual clock may stand still */
    double smallest_s = 0;
    double before_s = clock_now_s();
    for (int reading = 0, step = 0; reading < READINGS && step < STEPS; reading++) {
        const double now_s = clock_now_s();
        if (now_s > before_s) {
            if (step == 0 || now_s - before_s < smallest_s)
                smallest_s = now_s - before_s;
            step++;
        }
        before_s = now_s;
    }
    return smallest_s > 0 ? smallest_s : MPI_Wtick();
}
