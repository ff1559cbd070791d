#pragma once

#include <filesystem>
#include <string>

#include "argosy/data/idx.h"

// Real data that Debian packages bring, for examples, tests and first steps.
namespace argosy::data {

// The King James Bible, 4.1 MB of English in the public domain, as a line per
// verse with an empty line before each chapter. Asks the program `bible` of the
// package bible-kjv; throws SystemError when that is not installed.
std::string king_james_bible();

enum class Split { Train, Test };

// Fashion-MNIST, 60000 pictures of ten kinds of clothing to train with and
// 10000 to test, 28 by 28. The default folder is that of the package
// dataset-fashion-mnist. Throws as IdxImages does.
IdxImages fashion_mnist(
    Split split,
    const std::filesystem::path& folder = "/usr/share/datasets/fashion-mnist");

} // namespace argosy::data
