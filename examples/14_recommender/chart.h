#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// The AUC of a pass, and the best there could be.
struct PassAuc {
  std::string name;
  double auc = 0.5;
  double best = 0.5;
};

// A line chart in SVG.
class Chart {
 public:
  explicit Chart(const std::vector<PassAuc>& passes) : passes_(passes) {}

  void write(const std::filesystem::path& path) const {
    std::ofstream out(path);
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth
        << "\" height=\"" << kHeight
        << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
        << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    for (double level = kLow; level < kHigh + 0.01; level += 0.1) {
      out << "<line x1=\"" << kLeft << "\" x2=\"" << kWidth - kRight
          << "\" y1=\"" << y(level) << "\" y2=\"" << y(level)
          << "\" stroke=\"#dddddd\"/>\n"
          << text(kLeft - 8, y(level) + 4, "end", number(level));
    }
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      out << text(x(i), kHeight - 12, "middle", passes_[i].name);
    }
    draw(out, &PassAuc::best, "#999999", "best possible");
    draw(out, &PassAuc::auc, "#1f77b4", "before training on the pass");
    out << "</svg>\n";
  }

 private:
  static constexpr double kWidth = 760;
  static constexpr double kHeight = 300;
  static constexpr double kLeft = 48;
  static constexpr double kRight = 190;
  static constexpr double kTop = 16;
  static constexpr double kBottom = 40;
  static constexpr double kLow = 0.5;
  static constexpr double kHigh = 0.9;

  double x(std::size_t i) const {
    const double most = std::max<double>(1, double(passes_.size()) - 1);
    return kLeft + (kWidth - kLeft - kRight) * double(i) / most;
  }
  static double y(double auc) {
    return kHeight - kBottom -
        (kHeight - kTop - kBottom) * (auc - kLow) / (kHigh - kLow);
  }
  static std::string number(double value) {
    return std::to_string(value).substr(0, 4);
  }
  static std::string text(
      double x, double y, const std::string& anchor, const std::string& what) {
    return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) +
        "\" text-anchor=\"" + anchor + "\">" + what + "</text>\n";
  }
  void draw(
      std::ostream& out,
      double PassAuc::*value,
      const std::string& colour,
      const std::string& name) const {
    out << "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" << colour
        << "\" points=\"";
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      out << x(i) << ',' << y(passes_[i].*value) << ' ';
    }
    out << "\"/>\n"
        << text(
               kWidth - kRight + 8,
               y(passes_.back().*value) + 4,
               "start",
               name);
  }

  const std::vector<PassAuc>& passes_;
};
