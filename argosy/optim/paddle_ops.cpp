#include "argosy/optim/paddle_ops.h"

namespace argosy::optim {

const std::map<std::string, std::vector<std::string>>& paddle_ops() {
  static const std::vector<std::string> kProducts = {
      "addbmm", "addmm", "baddbmm", "bmm", "linear", "matmul", "mm", "mv"};
  static const std::vector<std::string> kPools = {
      "adaptive_avg_pool2d",
      "adaptive_max_pool2d",
      "avg_pool2d",
      "max_pool2d",
      "max_pool2d_with_indices"};
  static const std::map<std::string, std::vector<std::string>> kAll = {
      {"batch_norm", {"batch_norm"}},
      {"bce_loss", {"binary_cross_entropy"}},
      {"bmm", {"bmm"}},
      {"concat", {"cat"}},
      {"conv2d", {"conv2d"}},
      {"conv2d_transpose", {"conv_transpose2d"}},
      {"conv3d", {"conv3d"}},
      {"conv3d_transpose", {"conv_transpose3d"}},
      {"cross_entropy", {"cross_entropy_loss"}},
      {"cross_entropy2", {"cross_entropy_loss"}},
      {"depthwise_conv2d", {"conv2d"}},
      {"elementwise_add", {"add"}},
      {"elementwise_div", {"div"}},
      {"elementwise_floordiv", {"floor_divide"}},
      {"elementwise_max", {"maximum"}},
      {"elementwise_min", {"minimum"}},
      {"elementwise_mod", {"remainder"}},
      {"elementwise_mul", {"mul"}},
      {"elementwise_pow", {"pow"}},
      {"elementwise_sub", {"sub"}},
      {"expand_v2", {"expand"}},
      {"gather", {"index_select"}},
      {"layer_norm", {"layer_norm"}},
      {"lookup_table", {"embedding"}},
      {"lookup_table_v2", {"embedding"}},
      {"matmul", kProducts},
      {"matmul_v2", kProducts},
      {"p_norm", {"linalg_norm", "linalg_vector_norm", "norm"}},
      {"pool2d", kPools},
      {"reduce_max", {"amax", "max"}},
      {"reduce_mean", {"mean"}},
      {"reduce_min", {"amin", "min"}},
      {"reduce_prod", {"prod"}},
      {"reduce_sum", {"sum"}},
      {"relu6", {"relu6"}},
      {"reshape2", {"reshape"}},
      {"rnn", {"gru", "lstm", "rnn_relu", "rnn_tanh"}},
      {"scale", {"mul"}},
      {"sigmoid_cross_entropy_with_logits",
       {"binary_cross_entropy_with_logits"}},
      {"softmax_with_cross_entropy", {"cross_entropy_loss"}},
      {"squeeze2", {"squeeze"}},
      {"swish", {"silu"}},
      {"top_k_v2", {"topk"}},
      {"transpose2", {"permute", "transpose"}},
      {"unsqueeze2", {"unsqueeze"}},
  };
  return kAll;
}

} // namespace argosy::optim
