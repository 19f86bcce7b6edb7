/* Puts the recorders of this folder into a fresh context; core knows only their vtable. */
#include "grad/grad.h"

void cj__recorders_install(cj_ctx *c)
{
    c->recorder[CJ_REC_TAPE].record = cj__tape_record;
    c->recorder[CJ_REC_FORWARD].record = cj__forward_record;
    c->recorder[CJ_REC_CAPTURE].record = cj__capture_record;
}
