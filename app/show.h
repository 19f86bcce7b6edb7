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

/* A size of the sheet of n images that leaves no empty rows and columns: tiles of about 100 pixels, as many in a row as there are rows, or a few more. */
bool app_fit_sheet(cj_plot *p, int64_t n, int64_t height, int64_t width, bool captions);

#endif
