#!/usr/bin/env bash
# Makes the weights again: about three hours on two cores. Python 3.11 with NumPy and PyTorch; nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONHASHSEED=0 OMP_WAIT_POLICY=PASSIVE
python3 bpe.py ../tok.json --size 2560 --dialogues 12000
python3 pack_dialogues.py val.npz 900000000 1500
python3 pack_dialogues.py train2.npz 1000000 80000
python3 copying_exercises.py cur3.npz 9000
python3 weak_spots.py focus.npz 30000
python3 pack_dialogues.py more.npz 3000000 70000
python3 train.py 31.5 p1.pt --data train2.npz,cur3.npz --budget 4480 --lr 0.6 --decay 0.6
python3 train.py 6.3 q1.pt --init p1.pt --data focus.npz --budget 4480 --lr 0.22 --decay 0.9
python3 train.py 34 r1.pt --init q1.pt --data more.npz,focus.npz --budget 4480 --lr 0.35 --decay 0.8
python3 first_answers.py first.npz 40000
python3 train.py 14 s1.pt --init r1.pt --data first.npz --budget 4480 --lr 0.2 --decay 0.9
python3 train.py 26 s2.pt --init s1.pt --data first.npz,cur3.npz,more.npz --budget 4480 --lr 0.18 --decay 0.9
python3 train.py 8 s3.pt --init s2.pt --data first.npz,cur3.npz,more.npz --budget 4480 --lr 0.12 --decay 0.95
python3 strangers.py strangers.npz 60000
python3 train.py 48 s4.pt --init s3.pt --data strangers.npz,cur3.npz,more.npz --budget 4480 --lr 0.35 --decay 0.8 --threads 1
python3 export_gguf.py s4.pt ../demo.gguf
python3 export_gguf.py random ../random-tiny.gguf
python3 export_gguf.py recurrent ../random-recurrent.gguf
python3 check.py s4.pt "Who are you exactly?"
