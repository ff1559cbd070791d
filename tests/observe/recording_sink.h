#pragma once

#include <string>
#include <utility>
#include <vector>

#include "argosy/observe/report.h"
#include "argosy/observe/sink.h"

namespace argosy::observe {

// Keeps what it is given, of the kinds that it wants.
class RecordingSink : public Sink {
 public:
  explicit RecordingSink(std::vector<Interest> interests, double period = 1)
      : interests_(std::move(interests)), period_(period) {}

  bool wants(Interest interest) const override {
    for (const Interest each : interests_) {
      if (each == interest) {
        return true;
      }
    }
    return false;
  }
  std::chrono::duration<double> report_period() const override {
    return std::chrono::duration<double>(period_);
  }
  void on_point(const Point& point) override {
    names.emplace_back(point.name);
    points.push_back(point);
  }
  void on_report(const Report& report) override { reports.push_back(report); }
  void on_span(const SpanEvent& span) override {
    names.emplace_back(span.name);
    stretches.push_back(span);
  }

  std::vector<std::string> names;
  std::vector<Point> points; // without their names
  std::vector<Report> reports;
  std::vector<SpanEvent> stretches; // without their names

 private:
  std::vector<Interest> interests_;
  double period_;
};

} // namespace argosy::observe
