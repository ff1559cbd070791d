#pragma once

#include "argosy/ps/table/config.h"

namespace argosy::ps {

// Where the fields of a row stand, in words of 4 bytes behind its key. A field
// that the accessor does not have is at -1. A double takes two words.
struct RowLayout {
  int slot = -1;
  int seen_day = -1; // the day of the last push; unseen days count from it
  int delta_score = -1;
  int show = -1;
  int click = -1;
  int embed_w = -1;
  int embed_state = -1;
  int embedx_w = 0;
  int embedx_state = 0;

  int embedx_dim = 0;
  int embed_state_size = 0;
  int embedx_state_size = 0;
  int base_words = 0; // of a row without embedx; 0 if rows always have it
  int full_words = 0;
  // Of an id that is not admitted yet: its count, and padding where a count
  // alone would look like a row.
  int pending_words = 1;
  bool doubles = false; // show and click

  int pull_dim = 0;    // floats per key in a pull
  int push_dim = 0;    // floats per key in a push
  int pull_embed = -1; // where embed_w and embedx_w stand in a pull,
  int pull_embedx = 0;
  int push_show = -1;  // and show, embed_g, embedx_g in a push; slot comes
  int push_embed = -1; // first, click behind show
  int push_embedx = 0;

  // Whether rows know shows, days and scores.
  bool has_ctr() const { return show >= 0; }

  bool operator==(const RowLayout&) const = default;
};

RowLayout row_layout(const SparseConfig& config);

} // namespace argosy::ps
