/* The parts of the verb `cajal data`. */
#ifndef CJ_APP_DATA_H
#define CJ_APP_DATA_H

#include "app/app.h"

int data_get(const char *name); /* data_get.c */
bool data_picture(cj_ctx *c, const cj_dataset *d,
                  const char *path); /* data_picture.c: false after an error, or where there is nothing to draw */
int data_unknown(const char *name);  /* an error that suggests a name */

#endif
