#pragma once

#include <random>
#include <utility>

#include "data.h"
#include "r_data.h"

// 100,000 ratings of films, in the folder `data` of Debian's r-cran-dslabs. A
// click is a rating of 4 and more.
class MovieLens {
 public:
  explicit MovieLens(const std::string& folder) {
    const RObject ratings = read_r_data(folder, "movielens");
    const auto& users = ratings.at("userId").numbers;
    const auto& films = ratings.at("movieId").numbers;
    const auto& years = ratings.at("year").numbers;
    const auto& genres = ratings.at("genres");
    const auto& stars = ratings.at("rating").numbers;
    const auto count = static_cast<std::int64_t>(stars.size());
    all_ = {
        torch::empty({count}),
        torch::zeros({count, 1}),
        torch::empty({count, 5}, torch::kLong)};
    auto labels = all_.labels.accessor<float, 1>();
    auto numbers = all_.numbers.accessor<float, 2>();
    auto ids = all_.categories.accessor<std::int64_t, 2>();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      // A year may be missing, which is a large negative number.
      const double year = years[k] > 0 ? years[k] : 1900;
      labels[i] = stars[k] >= 4 ? 1.0f : 0.0f;
      numbers[i][0] = static_cast<float>((year - 1990) / 20);
      ids[i][0] = id_of(0, static_cast<std::uint64_t>(users[k]));
      ids[i][1] = id_of(1, static_cast<std::uint64_t>(films[k]));
      ids[i][2] = id_of(2, static_cast<std::uint64_t>(year));
      ids[i][3] = id_of(3, static_cast<std::uint64_t>(genres.numbers[k]));
      ids[i][4] = id_of(4, first_genre(genres, genres.numbers[k]));
    }
    shuffle(count);
  }

  // Every tenth rating is for the test; the others go round the workers.
  Data data(int worker, int workers) const {
    const std::int64_t count = all_.size();
    const std::int64_t tests = count / 10;
    const std::int64_t own = (count - tests) / workers;
    Data data{all_.narrow(tests + worker * own, own), all_.narrow(0, tests)};
    data.reference = means_of_users_and_films(tests);
    data.reference_name = "means of users and films";
    return data;
  }

 private:
  static std::uint64_t first_genre(const RObject& genres, double level) {
    const auto& names = genres.attributes.at("levels").texts;
    const std::string name = names.at(static_cast<std::size_t>(level) - 1);
    return std::hash<std::string>()(name.substr(0, name.find('|'))) &
        0xffffffff;
  }

  void shuffle(std::int64_t count) {
    torch::manual_seed(3);
    const auto order = torch::randperm(count, torch::kLong);
    all_ = {
        all_.labels.index_select(0, order),
        all_.numbers.index_select(0, order),
        all_.categories.index_select(0, order)};
  }

  // What a recommender has to be better than.
  torch::Tensor means_of_users_and_films(std::int64_t tests) const {
    const double mean = all_.labels.mean().item<double>();
    std::map<std::int64_t, std::pair<double, double>> sums; // and numbers
    const auto ids = all_.categories.accessor<std::int64_t, 2>();
    const auto labels = all_.labels.accessor<float, 1>();
    for (std::int64_t i = tests; i < all_.size(); ++i) {
      for (const int field : {0, 1}) {
        auto& [sum, number] = sums[ids[i][field]];
        sum += labels[i] - mean;
        ++number;
      }
    }
    auto scores = torch::empty({tests}, torch::kDouble);
    for (std::int64_t i = 0; i < tests; ++i) {
      double score = 0;
      for (const int field : {0, 1}) {
        const auto found = sums.find(ids[i][field]);
        if (found != sums.end()) { // few ratings say little
          score += found->second.first / (found->second.second + 5);
        }
      }
      scores[i] = score;
    }
    return scores;
  }

  Batch all_;
};
