#pragma once

// The parameters of kernels for one step: the constants of torch::optim's
// formulas, precomputed as far as they do not depend on the element. Kernels
// multiply gradients by `grad_scale` while reading them.

namespace argosy::optim {

struct SgdStep {
  double grad_scale = 1;
  double lr = 0;
  double momentum = 0;
  double undampened = 1; // 1 - dampening
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false; // the momentum starts as the gradient
};

// Adam and AdamW; and LAMB's first pass, which has no step size.
struct AdamStep {
  double grad_scale = 1;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;     // added to the gradient
  double shrink = 1;           // decoupled decay: multiplies the weight first
  double step_size = 0;        // lr / (1 - beta1^t)
  double root_correction2 = 1; // sqrt(1 - beta2^t)
};

struct AdagradStep {
  double grad_scale = 1;
  double lr = 0;
  double weight_decay = 0;
  double eps = 0;
};

struct LarsStep {
  double grad_scale = 1;
  double lr = 0; // local to the parameter
  double momentum = 0;
  double weight_decay = 0;
};

struct LambStep {
  double grad_scale = 1;
  double lr = 0; // times the trust ratio, which only the second pass knows
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  double correction1 = 1; // 1 - beta1^t
  double root_correction2 = 1;
};

struct NormStep {
  double grad_scale = 1;
};

struct ScaleStep {
  double factor = 1;
};

struct ClampStep {
  double low = 0;
  double high = 0;
};

struct EmaStep {
  double decay = 0;
};

} // namespace argosy::optim
