"""PIT114 full-frame-decoded-then-cropped."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.frames import first_crop
from pitstop.scan.source import Source


@rule("PIT114", worth="small")
def full_frame_decoded_then_cropped(source: Source) -> Iterator[Finding]:
    """Whole frames are decoded, and all but a crop is thrown away.

    Decoding costs by the pixel: a 256 crop of a 1280x720 frame uses 7 % of it. Store tiles,
    read crops with ``pitstop.parts.fast_decode``, or keep decoded frames and crop those. Pictures
    not much larger than the crop, and crops after a resize, which needs the whole, are no finding.

    Bad:
        from PIL import Image

        class Frames(torch.utils.data.Dataset):
            def __getitem__(self, index):
                image = Image.open(self.paths[index])
                return image.crop(self.window(image))

    Good:
        from PIL import Image

        class Frames(torch.utils.data.Dataset):
            def __getitem__(self, index):
                return Image.open(self.tiles[index])
    """
    for function in source.functions:
        if function.name == "__getitem__" and isinstance(source.parent(function), ast.ClassDef):
            crop = first_crop(source, function)
            if crop is not None:
                yield source.finding(crop, severity="note", confidence="suspected")
