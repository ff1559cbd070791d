#pragma once

#include <argosy/data/slots/slot_dataset.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

// A log of clicks, day by day, whose popular items change: each item comes up
// at some time, is shown to many for about a day, and is forgotten.

constexpr int kDays = 3;
constexpr int kPassesOfDay = 4;
constexpr int kFilesOfPass = 4;
constexpr int kFieldsOfClick = 3; // user, item, shop

inline argosy::data::Slots click_slots() {
  using argosy::data::SlotType;
  return {
      {"label", SlotType::Float, {1}},
      {"best", SlotType::Float, {1}}, // true probability, to compare with
      {"hour", SlotType::Float, {2}},
      {"ids", SlotType::Id, {kFieldsOfClick}}};
}

class ClickLog {
 public:
  ClickLog() : random_(11) {
    std::normal_distribution<double> normal;
    for (User& user : users_) {
      user = {normal(random_) * 0.7, normal(random_)};
    }
    for (Item& item : items_) {
      item.shop = static_cast<int>(random_() % kShops);
      item.appeal = normal(random_);
      item.taste = normal(random_);
      // Some are there from before the first day on.
      item.time = (static_cast<double>(random_() % 1000) / 1000 * 1.3 - 0.15) *
          kDays * kPassesOfDay;
    }
  }

  // MultiSlot lines in files DAY/PASS-NUMBER.txt.
  void write(const std::filesystem::path& folder, int samples_of_pass) {
    for (int day = 0; day < kDays; ++day) {
      const auto of_day = folder / std::to_string(20261118 + day);
      std::filesystem::create_directories(of_day);
      for (int pass = 1; pass <= kPassesOfDay; ++pass) {
        const int time = day * kPassesOfDay + pass - 1;
        for (int file = 0; file < kFilesOfPass; ++file) {
          std::ofstream out(
              of_day /
              (std::to_string(pass) + "-" + std::to_string(file) + ".txt"));
          for (int i = 0; i < samples_of_pass / kFilesOfPass; ++i) {
            write_sample(time, out);
          }
        }
      }
    }
  }

 private:
  static constexpr int kUsers = 500;
  static constexpr int kItems = 1500;
  static constexpr int kShops = 20;

  struct User {
    double mood = 0;
    double taste = 0;
  };
  struct Item {
    int shop = 0;
    double appeal = 0;
    double taste = 0;
    double time = 0; // when it is most popular
  };

  // An item is drawn as often as it is popular now.
  std::size_t draw_item(int time) {
    while (true) {
      const std::size_t index = random_() % kItems;
      const double away = (items_[index].time - time) / 2;
      if (uniform() < std::exp(-away * away)) {
        return index;
      }
    }
  }

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  void write_sample(int time, std::ostream& out) {
    const std::size_t u = random_() % kUsers;
    const std::size_t i = draw_item(time);
    const User& user = users_[u];
    const Item& item = items_[i];
    const double hour = (time % kPassesOfDay + uniform()) / kPassesOfDay;
    const double logit = -1 + user.mood + item.appeal +
        user.taste * item.taste + 0.5 * std::sin(2 * M_PI * hour) +
        0.3 * (item.shop % 3 - 1);
    const double best = 1 / (1 + std::exp(-logit));
    out << "1 " << (uniform() < best ? 1 : 0) << " 1 " << best << " 2 "
        << std::sin(2 * M_PI * hour) << ' ' << std::cos(2 * M_PI * hour)
        << " 3 " << id_of_field(0, u) << ' ' << id_of_field(1, i) << ' '
        << id_of_field(2, static_cast<std::size_t>(item.shop)) << '\n';
  }

  static std::uint64_t id_of_field(std::uint64_t field, std::size_t value) {
    return field << 32 | value;
  }

  std::mt19937_64 random_;
  User users_[kUsers];
  Item items_[kItems];
};
