// Cajal inside a C++17 program.  No macro is needed: every function is a plain one that takes a pointer to its options.  The story is that of embed.c.
#include <cajal/cajal.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace
{

cj_shape shape(std::initializer_list<int64_t> sizes)
{
    cj_shape s{};
    for (int64_t n : sizes) s.dim[s.ndim++] = n;
    return s;
}

// What is made while it lives goes with it.
class Scope
{
  public:
    explicit Scope(cj_ctx *c) : scope_(cj_scope_open(c)) {}
    ~Scope() { cj_scope_close(scope_); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    cj_scope scope_;
};

// x^p with the exponent as payload; the derivative p·x^(p-1) is written in operators.
struct Power {
    double exponent;
};

cj_tensor *power(cj_ctx *c, cj_tensor *x, double exponent);

bool power_infer(cj_ctx *, const void *, cj_tensor *const *in, cj_shape *s, cj_dtype *dtype)
{
    *s = cj_shape_of(in[0]);
    *dtype = cj_dtype_of(in[0]);
    return true;
}
bool power_run(cj_ctx *, const void *payload, const void *const *in, cj_tensor *const *shapes, void *out)
{
    double p = static_cast<const Power *>(payload)->exponent;
    for (int64_t i = 0, n = cj_numel(shapes[0]); i < n; i++)
        if (cj_dtype_of(shapes[0]) == CJ_F64) static_cast<double *>(out)[i] = std::pow(static_cast<const double *>(in[0])[i], p);
        else static_cast<float *>(out)[i] = std::pow(static_cast<const float *>(in[0])[i], static_cast<float>(p));
    return true;
}
void power_vjp(cj_ctx *c, const void *payload, cj_tensor *const *in, cj_tensor *, cj_tensor *g, cj_tensor **gin)
{
    double p = static_cast<const Power *>(payload)->exponent;
    gin[0] = cj_mul(g, cj_mul_scalar(power(c, in[0], p - 1), p));
}
cj_tensor *power(cj_ctx *c, cj_tensor *x, double exponent)
{
    Power payload{ exponent };
    cj_custom_op op{};
    op.name = "power";
    op.nin = 1;
    op.payload = &payload;
    op.payload_size = sizeof payload;
    op.infer = power_infer;
    op.run = power_run;
    op.vjp = power_vjp;
    return cj_custom(c, &op, &x);
}

void expect(bool ok, const char *what)
{
    if (ok) return;
    std::fprintf(stderr, "embed (C++): %s\n", what);
    std::exit(1);
}

} // namespace

int main()
{
    cj_ctx_opts opts{};
    opts.seed = 7;
    opts.memory_cap = 2 << 20;
    std::unique_ptr<cj_ctx, void (*)(cj_ctx *)> owner(cj_ctx_new(&opts), cj_ctx_free);
    cj_ctx *c = owner.get();
    expect(cj_ok(c), cj_message(c));

    const std::vector<float> xs{ 0, 0, 0, 1, 1, 0, 1, 1 }, ys{ 0, 1, 1, 0 };
    cj_tensor *x = cj_from_f32(c, xs.data(), shape({ 4, 2 })), *y = cj_from_f32(c, ys.data(), shape({ 4, 1 }));
    cj_module *layers[] = { cj_linear(c, 2, 8, nullptr), cj_tanh_layer(c), cj_linear(c, 8, 1, nullptr), nullptr };
    cj_module *net = cj_sequential(c, layers);
    cj_adam_opts adam{};
    adam.lr = 0.05;
    cj_optim *opt = cj_adam(cj_module_params(net), &adam);
    expect(cj_ok(c), cj_message(c));

    const double at[] = { 0.5, 1.5, 2.5 };
    cj_tensor *points = cj_from_f64(c, at, shape({ 3 }));
    cj_fn cube = [](cj_ctx *q, void *, cj_tensor *const *in, int) { return power(q, in[0], 3); };
    cj_gradcheck_result check = cj_gradcheck(c, cube, nullptr, &points, 1, nullptr);
    std::printf("C++: power, an operator of this program: derivatives %s\n", check.ok ? "agree with differences" : check.what);
    expect(check.ok, check.what);

    std::atomic<int> step{ 0 };
    auto train = [&](int last) {
        while (step < last && cj_ok(c)) {
            Scope s(c);
            if (cj_minimise(opt, cj_bce_with_logits(cj_forward(net, x), y, nullptr))) step++;
        }
    };
    std::thread other([&] {
        while (step < 100) std::this_thread::yield();
        cj_cancel(c);
    });
    train(1000000);
    other.join();
    std::printf("C++: cancelled from another thread after %d steps: %s\n", step.load(), cj_message(c));
    expect(cj_error(c) == CJ_ECANCELLED, "it was not cancelled");
    cj_clear(c);

    {
        Scope s(c);
        cj_tensor *big = cj_zeros(c, shape({ 1000, 1000 }), CJ_F32);
        expect(cj_is_poison(big) && cj_error(c) == CJ_EMEMORY, "the cap was not noticed");
        std::printf("C++: asked for too much: %s\n", cj_message(c));
    }
    cj_clear(c);

    train(step + 500);
    expect(cj_ok(c), cj_message(c));
    Scope s(c);
    float p[4];
    expect(cj_to_f32(cj_sigmoid(cj_forward(net, x)), p, 4), cj_message(c));
    std::printf("C++: went on to %d steps; xor of 00 01 10 11: %.2f %.2f %.2f %.2f\n", step.load(), p[0], p[1], p[2], p[3]);
    expect(p[0] < 0.2 && p[1] > 0.8 && p[2] > 0.8 && p[3] < 0.2, "XOR was not learnt");
    return 0;
}
