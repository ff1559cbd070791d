#pragma once

#include <map>
#include <string>
#include <vector>

// Not installed.
namespace argosy::optim {

// The ops of LibTorch that do what an op of Paddle does, by Paddle's name,
// without "aten::". Paddle's name comes first: its "matmul" is what its Linear
// computes, too.
const std::map<std::string, std::vector<std::string>>& paddle_ops();

} // namespace argosy::optim
