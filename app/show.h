/* Things to look at: the learning curve, images in letters. */
#ifndef CJ_APP_SHOW_H
#define CJ_APP_SHOW_H

#include "app/app.h"

/* curve.png of the run's metrics.jsonl; its path, or NULL where this build cannot draw. */
const char *app_draw_curve(cj_ctx *c, const char *folder, cj_task task);
/* Some held-out images with what the network says, and one that it gets wrong if there is one. */
void app_show_images(const app_job *j, int n);

#endif
