/* Every fixed limit of the library, in one place. */
#ifndef CAJAL_LIMITS_H
#define CAJAL_LIMITS_H

#define CJ_VERSION_MAJOR 0
#define CJ_VERSION_MINOR 1
#define CJ_VERSION_PATCH 0
#define CJ_VERSION "0.1.0"

#define CJ_MAX_DIMS 8           /* dimensions of a tensor */
#define CJ_MAX_INPUTS 1024      /* inputs of one operator call (cat, stack, optimiser updates) */
#define CJ_MAX_OUTPUTS 8        /* results of one operator call */
#define CJ_MAX_ATTR_BYTES 512   /* attributes of one operator, by value */
#define CJ_MAX_MESSAGE 512      /* bytes of an error message */
#define CJ_MAX_PATH_NAME 256    /* bytes of a module path such as encoder.3.attn.q */
#define CJ_MAX_THREADS 256      /* threads of one context */
#define CJ_MAX_PLAN_INPUTS 64   /* listed inputs of a captured step */
#define CJ_MAX_PLAN_OUTPUTS 16  /* results of a captured step */
#define CJ_MAX_PLANS 16         /* shapes a plan remembers; the least recently used goes first */
#define CJ_MAX_LEVELS 8         /* nested forward-mode derivatives */

#endif
