/* The text of the headers that kernels compiled at run time include (jit.cu). */
#define TEXT(symbol, file)                                                                                                                 \
    __asm__(".section .rodata\n.global " symbol "\n.hidden " symbol "\n" symbol ":\n.incbin \"kernels/cuda/" file                          \
            "\"\n.byte 0\n.previous\n")

TEXT("gpu_text_value", "value.cuh");
TEXT("gpu_text_ew_value", "ew_value.cuh");
TEXT("gpu_text_ew_jit", "ew_jit.cuh");
