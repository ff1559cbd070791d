#pragma once

#include <filesystem>
#include <string>

#include "argosy/data/idx.h"

// Real data from Debian packages, for examples, tests and first experiments.
namespace argosy::data {

// Returns the King James Bible, 4.1 MB of public domain English: one line per
// verse, with an empty line before each chapter. Runs the program `bible` of
// the package bible-kjv; throws SystemError if it is not installed.
std::string king_james_bible();

enum class Split { Train, Test };

// Returns Fashion-MNIST: 60000 training and 10000 test images of 28 x 28 in ten
// classes. The default folder is that of the package dataset-fashion-mnist.
// Throws as IdxImages does.
IdxImages fashion_mnist(
    Split split,
    const std::filesystem::path& folder = "/usr/share/datasets/fashion-mnist");

} // namespace argosy::data
