/* Things to look at: the learning curve, images in letters. */
#ifndef CJ_APP_SHOW_H
#define CJ_APP_SHOW_H

#include "app/app.h"

/* curve.png of the run's metrics.jsonl; its path, or NULL where this build cannot draw. */
const char *app_draw_curve(cj_ctx *c, const char *folder, cj_task task);
/* The other pictures of a trained network; appends ", NAME" to list for each. False after an error; true and nothing where this build cannot draw. */
bool app_draw_pictures(app_job *j, const char *folder, char *list, size_t room);
bool app_draw_samples(app_job *j, const char *folder); /* samples.npy and samples.png, silently (sample.c) */
/* Some held-out images with what the network says, and one that it gets wrong if there is one. */
void app_show_images(const app_job *j, int n);

#endif
