/* MANIFEST.json: which checkpoints a run folder has. */
#ifndef CJ_TRAIN_MANIFEST_H
#define CJ_TRAIN_MANIFEST_H

#include "train/train.h"

#define CJ_GENERATIONS 4 /* two of the manifest, two of the one before */

/* Generations that a manifest names, newest first; the old manifest's come last. -1 after an error; 0: there is no manifest. */
int cj__manifest_read(cj_ctx *c, const char *folder, cj_generation out[CJ_GENERATIONS]);
/* Puts a new manifest in place, atomically; the one before stays as MANIFEST.old.json. */
bool cj__manifest_write(cj_ctx *c, const char *folder, const cj_generation *g, int n);
/* Size and CRC-32 of a file of the folder. */
bool cj__run_measure(cj_ctx *c, const char *folder, cj_run_file *f);
/* Deletes checkpoint files that none of the generations names. */
void cj__run_sweep(const char *folder, const cj_generation *g, int n);

#endif
